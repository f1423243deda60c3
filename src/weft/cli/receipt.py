"""`weft receipt key`, `weft receipt verify`: a site's public key, and receipts verified by it without a server."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.common import (
    Json,
    Subparsers,
    client_of,
    exit_code,
    fields,
    group,
    leaf,
    read_stdin,
    say,
    warn,
    write_done,
    write_json,
)
from weft.cli.output import Listing, Record
from weft.model.errors import InputError

if TYPE_CHECKING:
    from weft.generate.receipts import ReceiptContents, Validity

_NAMES = (
    *("pod", "pod_id", "project_id", "site", "ordered_at", "released_at", "cause", "nodes", "spares"),
    "segment",
    *("clean", "quarantined"),
)


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft receipt`."""
    commands = group(subparsers, "receipt", "check receipts, and get the key to check them by")
    leaf(commands, "key", key, "print the public key that this site's receipts are signed with")
    parser = leaf(
        commands,
        "verify",
        verify,
        "verify a receipt, or a bandwidth test's certificate, without a server; exit 0 only if the key is trusted, "
        "the signature valid and all clean, or passed",
        api=False,
    )
    parser.add_argument("file", metavar="FILE", help="signed receipt or certificate (JSON); - for stdin")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--key",
        metavar="PUBKEY",
        help="expected public key: base64, or a file with it in base64 or PEM (`weft receipt key` prints it)",
    )
    keys.add_argument(
        "--self-signed",
        action="store_true",
        help="accept the key inside the receipt: shows only that it wasn't changed since it was signed",
    )


def key(args: argparse.Namespace) -> int:
    """`weft receipt key`: print the key, alone on its line; returns 0."""
    found = client_of(args).receipt_key()
    return write_done(args, found, found["public_key"])


def verify(args: argparse.Namespace) -> int:
    """`weft receipt verify`: 0 if the receipt is signed with a trusted key and clean, without contradictions; else 1.

    For a certificate of a bandwidth test: 0 if its result is passed.
    """
    from weft.generate import receipts

    document = receipts.read(_text(args.file))
    verdict = receipts.verify(document, _key(args.key) if args.key is not None else None)
    if receipts.CERTIFICATE in document:
        return _certificate(args, document, verdict, receipts.certified(document))
    contents = receipts.contents(document)
    good = verdict.valid and contents.clean and (verdict.trusted or args.self_signed)
    code = exit_code(args, not good)
    if args.json:
        write_json(
            {
                "valid": verdict.valid,
                "trusted": verdict.trusted,
                "clean": contents.clean,
                "contradictions": contents.contradictions,
                "found_since": contents.found,
                "reason": verdict.reason,
            }
        )
    else:
        _say(document["receipt"], verdict, contents, args.self_signed)
    return code


def _certificate(args: argparse.Namespace, document: Json, verdict: Validity, result: str) -> int:
    """Print the verdict on a certificate of a bandwidth test; returns the exit code."""
    code = exit_code(
        args, not (verdict.valid and result == "passed" and (verdict.trusted or args.self_signed))
    )
    if args.json:
        found = {
            "valid": verdict.valid,
            "trusted": verdict.trusted,
            "result": result,
            "reason": verdict.reason,
        }
        write_json(found)
        return code
    certificate = document["certificate"]
    names = ("site", "pod", "measured_in", "reported_by", "reported_at")
    say("\n".join(fields((name, certificate.get(name)) for name in names)))
    say(f"signature: {'valid' if verdict.valid else 'NOT VALID'}: {verdict.reason}")
    if verdict.valid and not verdict.trusted and not args.self_signed:
        say("signer: UNKNOWN: give the site's key with --key, or accept any key with --self-signed")
    elif verdict.valid:
        say(f"result: {result if result == 'passed' else result.upper()}")
    return code


def _say(receipt: Json, verdict: Validity, contents: ReceiptContents, self_signed: bool) -> None:
    pod = f"{receipt.get('pod')} ({receipt.get('pod_id')})"
    say("\n".join(fields([("pod", pod), ("site", receipt.get("site"))])))
    say(f"signature: {'valid' if verdict.valid else 'NOT VALID'}: {verdict.reason}")
    if not verdict.valid:
        return
    if not verdict.trusted and not self_signed:
        say("signer: UNKNOWN: give the site's key with --key, or accept any key with --self-signed")
    say(f"content: {'clean' if contents.clean else 'NOT CLEAN: not everything was seen gone'}")
    for one in contents.contradictions:
        say(f"contradicts that it is clean: {one}")
    for one in contents.found:
        say(f"found after it was signed, and not seen gone: {one}")


def record(signed: Json) -> Record:
    """A signed receipt: what it says, what was read, and what was found since. Warns if not all of it is clean."""
    receipt = signed["receipt"]
    shown = {name: receipt[name] for name in _NAMES if name in receipt}
    if abandoned := receipt.get("abandoned"):
        shown["abandoned"] = f"by {abandoned['by']} at {abandoned['at']}: {abandoned['reason']}"
        shown["not_reused_until_seen_free"] = abandoned["kept"]
    items = receipt["items"]
    unread = [{**item, "unread": one} for item in items for one in item.get("unread", ())]
    corrections = signed.get("corrections") or ()
    details = {
        "items": Listing(("plane", "subject", "result", "seen", "at"), items),
        "stays_in_the_project": Listing(("plane", "subject"), [i for i in items if i["result"] == "kept"]),
        "not_covered": Listing(("plane", "subject", "unread"), unread),
        "found_after_it_was_signed": Listing(
            ("kind", "where", "subject", "found", "found_at", "gone_at"), corrections
        ),
    }
    shown |= {"algorithm": signed["algorithm"], "public_key": signed["public_key"]}
    if corrections:
        warn("weft: resources that the receipt reports as gone were found after it was signed")
    if not receipt["clean"]:
        warn("weft: the receipt is not clean: not everything was seen gone")
    return Record(shown, signed, {name: rows for name, rows in details.items() if rows.rows})


def _text(file: str) -> str:
    try:
        return read_stdin() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError("FILE", file, f"a file that can be read ({error.strerror})") from None
    except ValueError:
        raise InputError("FILE", file, "a signed receipt as JSON") from None


def _key(given: str) -> str:
    """The key's text, or that of the file with this name."""
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else given
    except (OSError, ValueError) as error:
        raise InputError("--key", given, f"a public key or a file with one ({error})") from None
