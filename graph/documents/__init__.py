"""Every human-readable file, rendered from the ledger; none is ever read back."""

from ridgeline.graph.documents.campaign import changed, render
from ridgeline.graph.documents.commits import commit_message, tip_entry
from ridgeline.graph.documents.final_report import report
from ridgeline.graph.documents.transfer import TransferCheck, transfer_check

__all__ = ["TransferCheck", "changed", "commit_message", "render", "report", "tip_entry", "transfer_check"]
