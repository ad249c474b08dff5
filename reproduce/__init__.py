"""The machinery: catalogue, runner, task pool, comparison and ledger. It knows no mathematics."""
