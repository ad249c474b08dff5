"""A SuperLink that writes down every request body it receives.

python flower_recorder.py <file> <options of flower-superlink>
"""

import sys
from pathlib import Path

from flwr.superlink import main
from flwr.superlink.cli import flower_superlink


class Recorder:
    """ASGI: passes everything on, and appends what comes in to a file."""

    def __init__(self, app, file):
        self.app, self.file = app, file

    async def __call__(self, scope, receive, send):
        async def reading():
            message = await receive()
            self.file.write(message.get("body", b""))
            self.file.flush()
            return message

        await self.app(scope, reading if scope["type"] == "http" else receive, send)


if __name__ == "__main__":
    record = Path(sys.argv.pop(1)).open("ab")
    create_app = main.create_app

    def recorded(*given, **named):
        app = create_app(*given, **named)
        app.add_middleware(Recorder, file=record)
        return app

    main.create_app = recorded
    flower_superlink()
