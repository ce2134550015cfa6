"""A campaign's folder on disk: ledger, artifacts, documents, and how a file is written so that it is whole."""
