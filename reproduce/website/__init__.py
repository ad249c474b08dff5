"""The site: `make site` gathers reports, notebooks, lessons, the ledger and guides, and calls Sphinx."""
