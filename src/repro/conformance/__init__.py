"""Is an engine's privacy claim true? Black-box checks for any federated engine; see `examine`."""

from repro.conformance.adapter import Engine, Promise
from repro.conformance.findings import Finding
from repro.conformance.report import Report, examine

__all__ = ["Engine", "Finding", "Promise", "Report", "examine"]
