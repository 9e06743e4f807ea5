"""How an attempt to connect ended, in words."""

from __future__ import annotations

from distdoctor.model.facts import Contact

# -- contact and firewalls ------------------------------------------------------------------------------------------


def contact_text(contact: Contact | None) -> str:
    """How an attempt to connect ended, for a sentence."""
    if contact is None:
        return "was never tried"
    told = f" (errno {contact.errno})" if contact.errno else ""
    ways = {
        "open": "was open",
        "refused": "refused the connection",
        "reset": "reset the connection",
        "no-answer": f"gave no answer in {contact.seconds:.1f} s" if contact.seconds else "gave no answer",
        "rejected": "was rejected by a firewall",
        "unreachable": "was unreachable",
        "wrong-node": "was answered by another process than the one meant",
        "stalled": "takes small payloads and never a large one",
        "error": "gave an error",
    }
    return f"{contact.address}:{contact.port} {ways[contact.outcome]}{told}"
