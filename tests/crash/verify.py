"""What must hold for a store that was killed and started again, checked through its API alone."""

from __future__ import annotations

import re
import time

from tests.fixtures.wire import Answer, Connection, Signer

from .ledger import ABSENT, Change, Ledger, Value
from .load import BUCKET, Load, Upload, WrongAnswerError, completion_document, etag_of, read_value


class Verifier:
    """Reads everything that a ledger knows, on one connection."""

    def __init__(self, signer: Signer, ledger: Ledger) -> None:
        self.signer = signer
        self.ledger = ledger
        self.connection: Connection = signer.connect(30)

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.sock.close()

    def ask(self, method: str, key: str, query: list[tuple[str, str]] | None = None, body: bytes = b"") -> Answer:
        path = f"/{BUCKET}/{key}" if key else f"/{BUCKET}"
        self.connection.send(self.signer.request(method, path, query or (), (), body))
        return self.connection.response(method)

    def read_all(self) -> dict[str, Value | None]:
        """Check every key: its object is intact, with its metadata, or absent."""
        found = {}
        for key in self.ledger.known():
            try:
                found[key] = read_value(self.ask("GET", key))
            except WrongAnswerError as error:
                raise AssertionError(f"{key}: {error}; legal are {self.ledger.legal(key)}") from None
        return found

    def check_list(self, found: dict[str, Value | None]) -> None:
        """Check that a listing in small pages names exactly what GET finds, in order, with size and ETag."""
        listed: list[tuple[str, int, str]] = []
        token: list[tuple[str, str]] = []
        while True:
            page = self.ask("GET", "", [("list-type", "2"), ("max-keys", "7"), *token])
            assert page.status == 200, page.body
            text = page.body.decode()
            for entry in re.findall(r"<Contents>(.*?)</Contents>", text, re.DOTALL):
                fields = dict(re.findall(r"<(Key|Size|ETag)>([^<]*)<", entry))
                listed.append((fields["Key"], int(fields["Size"]), fields["ETag"].replace("&quot;", '"').strip('"')))
            more = re.search(r"<NextContinuationToken>([^<]*)<", text)
            if more is None:
                break
            token = [("continuation-token", more[1])]
        expected = [(key, value.size, etag_of(value)) for key, value in sorted(found.items()) if value is not None]
        assert listed == expected

    def check_strict(self, load: Load, found: dict[str, Value | None]) -> None:
        """Check that every acknowledged change holds, and that no unanswered one happened partly."""
        for move in load.moves:
            if found[move.gone.key] == ABSENT:
                self.ledger.acknowledge(move.gone, move.came)
            else:
                self.ledger.refuse(move.gone, move.came)
        now = time.monotonic()
        for key, value in found.items():
            assert self.ledger.find(key, value, began=now, ended=now), (
                f"{key} is {value} after the restart, but only {self.ledger.legal(key)} are legal"
            )

    def check_prefix(self, found: dict[str, Value | None]) -> None:
        """Check that what survived is a prefix of what happened, and includes all that was promised to be durable.

        If a change survived, so did every change that was acknowledged before it was requested.
        """
        now = time.monotonic()
        survivors: list[Change] = []
        for key, value in found.items():
            change = self.ledger.find(key, value, began=-1e9, ended=now)
            assert change, f"{key} is {value}, which nobody ever wrote there"
            if value is not ABSENT:
                survivors.append(change)
        durable = [c for changes in self.ledger.changes.values() for c in changes if c.acknowledged and c.durable]
        cut = max((change.began for change in [*survivors, *durable]), default=-1e9)
        for key, value in found.items():
            assert self.ledger.find(key, value, began=cut, ended=now), (
                f"{key} is {value} after the restart, older than what other keys show to have survived"
            )

    def check_uploads(self, load: Load) -> None:
        """Check that open uploads have every acknowledged part and can be completed, and completed ones are closed."""
        for upload in load.uploads:
            parts = self.ask("GET", upload.key, [("uploadId", upload.upload_id)])
            if upload.completion is not None:
                assert parts.status in (200, 404), parts.body
                # Both completed and open, or neither, would be a partial completion.
                if parts.status == 404:
                    self.ledger.acknowledge(upload.completion)
                else:
                    self.ledger.refuse(upload.completion)
            else:
                assert parts.status == 200, f"upload of {upload.key} was acknowledged: {parts.body!r}"
            if parts.status == 200:
                self._finish(upload, parts.body.decode())
        load.uploads.clear()

    def _finish(self, upload: Upload, listing: str) -> None:
        etags = {
            int(number): etag.replace("&quot;", '"')
            for number, etag in re.findall(
                r"<Part>.*?<PartNumber>(\d+)<.*?<ETag>([^<]*)<.*?</Part>", listing, re.DOTALL
            )
        }
        for number, etag in upload.etags.items():
            assert etags.get(number) == etag, f"part {number} of {upload.key} was acknowledged"
        query = [("uploadId", upload.upload_id)]
        if set(upload.etags) != {1, 2}:
            assert self.ask("DELETE", upload.key, query).status == 204
            return
        change = self.ledger.begin(upload.key, upload.value)
        answer = self.ask("POST", upload.key, query, completion_document(upload))
        assert answer.status == 200, answer.body
        self.ledger.acknowledge(change)
        assert read_value(self.ask("GET", upload.key)) == upload.value

    def settle(self, found: dict[str, Value | None]) -> None:
        """Accept what was found as the present state."""
        for key, value in found.items():
            self.ledger.settle(key, value)
