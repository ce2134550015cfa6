"""Every human-readable file, rendered from the ledger; none is ever read back."""

from graph.documents.campaign import changed, render
from graph.documents.commits import commit_message, tip_entry
from graph.documents.final_report import report
from graph.documents.transfer import TransferCheck, transfer_check

__all__ = ["TransferCheck", "changed", "commit_message", "render", "report", "tip_entry", "transfer_check"]
