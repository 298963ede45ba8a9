"""What a document refuses."""

from tickets.problems import TicketError


class MarkdownError(TicketError):
    """A document that cannot be read, or an edit that is refused; nothing has been changed."""
