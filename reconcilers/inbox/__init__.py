"""Messages from providers: verified and stored in the request, worked on afterwards.

`receiving` stores and answers; `working`, from the sweep, matches each message to its operation
and has a look made. A process that dies in between loses nothing: the row is the work.
"""

from reconcilers.inbox.receiving import NoSuchAddress, Received, receive
from reconcilers.inbox.working import run_once

__all__ = ["NoSuchAddress", "Received", "receive", "run_once"]
