"""`weft receipt verify`: verify a receipt's signature without a server."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from weft.cli.common import Json, Subparsers, fields, group, leaf, read_stdin, say, table, warn, write_json
from weft.model.errors import InputError


def add_commands(subparsers: Subparsers) -> None:
    commands = group(subparsers, "receipt", "check receipts")
    parser = leaf(commands, "verify", verify, "verify a receipt's signature, without a server", api=False)
    parser.add_argument("file", metavar="FILE", help="signed receipt (JSON); - for stdin")
    parser.add_argument(
        "--key",
        metavar="PUBKEY",
        help="expected public key: base64, or a file with it in base64 or PEM; "
        "default: the key in the receipt",
    )


def verify(args: argparse.Namespace) -> int:
    """Exit code 0 if the signature is valid and all was clean, 1 if not."""
    from weft.generate.receipts import verify as check

    document = _read(args.file)
    verdict = check(document, _key(args.key) if args.key is not None else None)
    receipt = document["receipt"]
    clean = receipt.get("clean") is True
    good = verdict.valid and clean
    if args.json:
        write_json(
            {"valid": verdict.valid, "trusted": verdict.trusted, "clean": clean, "reason": verdict.reason}
        )
        return 0 if good else 1
    say(
        "\n".join(
            fields(
                [("pod", f"{receipt.get('pod')} ({receipt.get('pod_id')})"), ("site", receipt.get("site"))]
            )
        )
    )
    say(f"signature: {'valid' if verdict.valid else 'NOT VALID'}: {verdict.reason}")
    if verdict.valid:
        say(f"content: {'clean' if clean else 'NOT CLEAN: not everything was seen gone'}")
    return 0 if good else 1


def show_receipt(signed: Json) -> None:
    """A signed receipt as text."""
    receipt = signed["receipt"]
    names = (
        "pod",
        "pod_id",
        "project_id",
        "site",
        "ordered_at",
        "released_at",
        "nodes",
        "spares",
        "segment",
        "clean",
        "quarantined",
    )
    say("\n".join(fields([(name.replace("_", " "), receipt[name]) for name in names if name in receipt])))
    if abandoned := receipt.get("abandoned"):
        say(f"abandoned by {abandoned['by']} at {abandoned['at']}: {abandoned['reason']}")
        if abandoned["kept"]:
            say(f"not reused until seen free: {', '.join(abandoned['kept'])}")
    say("\n".join(["", *table(("plane", "subject", "result", "seen", "at"), receipt["items"])]))
    for item in receipt["items"]:
        if item["result"] == "kept":
            say(f"stays in the project: {item['plane']} {item['subject']}")
        for one in item.get("unread", ()):
            say(f"not covered by {item['plane']} {item['subject']}: {one}")
    if corrections := signed.get("corrections"):
        say("\nfound after it was signed:")
        say("\n".join(table(("kind", "where", "subject", "found", "found_at", "gone_at"), corrections)))
    say("")
    say("\n".join(fields([("signed with", signed["algorithm"]), ("public key", signed["public_key"])])))
    if signed.get("corrections"):
        warn("weft: resources that the receipt reports as gone were found after it was signed")
    if not receipt["clean"]:
        warn("weft: the receipt is not clean: not everything was seen gone")


def _read(file: str) -> Json:
    try:
        text = read_stdin() if file == "-" else Path(file).read_text(encoding="utf-8")
        document = json.loads(text)
    except OSError as error:
        raise InputError("FILE", file, f"a file that can be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise InputError("FILE", file, "a signed receipt as JSON") from None
    if not isinstance(document, dict):
        raise InputError("FILE", file, "a signed receipt, a JSON object")
    return document


def _key(given: str) -> str:
    """The key's text: from the file, if one of that name exists."""
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else given
    except (OSError, ValueError) as error:
        raise InputError("--key", given, f"a public key or a file with one ({error})") from None
