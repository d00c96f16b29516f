"""The pages about the server: what they show and do, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.console.visitors import Visitor, asked, visitor_of
from tests.fixtures.events.receivers import SECRET
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.signing import Identity
from tests.fixtures.targets import Target, refusal, running
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Wire
from tests.replication.conftest import add_target, admin, versioned

from orcas.console.pages.server.charts import Series, bar, line_chart, stacked
from orcas.console.pages.server.health import in_words
from orcas.console.pages.server.live import charts
from orcas.console.pages.server.requests import why
from orcas.tools.session import session_of

PATHS = (
    "/health", "/settings", "/licences", "/live", "/requests", "/events", "/replication", "/tasks", "/disk", "/usage",
    "/usage?by=day&of=sent", "/keyring", "/log", "/cluster",
)  # fmt: skip
# Other pages lead to them: licences, and the cluster, which few servers have.
UNLISTED = ("/licences", "/cluster")


def without_tags(page: str) -> str:
    """The text of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_one(visitor: Visitor, path: str) -> None:
    text = visitor.page(path)
    assert "<h1>" in text
    assert f'href="/_orcas/console{path.partition("?")[0]}"' in text or path in UNLISTED
    # Inline styles and handlers would not work, and the policy would say so in a console that nobody reads.
    assert not re.search(r"<[^>]+\s(style|on\w+)=", text)


@pytest.mark.parametrize("path", PATHS)
def test_nobody_but_root_is_shown_a_page(target: Target, path: str) -> None:
    """The page has no rights of its own: what the admin API refuses is refused here."""
    import boto3

    keys = {"aws_access_key_id": target.server.access_key, "aws_secret_access_key": target.server.secret_key}
    iam = boto3.client("iam", endpoint_url=target.server.endpoint, region_name=target.server.region, **keys)
    name = "user-" + re.sub(r"\W", "-", path)
    iam.create_user(UserName=name)
    pair = iam.create_access_key(UserName=name)["AccessKey"]
    visitor = visitor_of(target, signed_in=False)
    assert visitor.sign_in(pair["AccessKeyId"], pair["SecretAccessKey"]).status_code == 303
    answer = visitor.get(path)
    # The keyring and usage say so in the page of the error, as all do.
    assert answer.status_code == 403
    visitor.close()


def test_settings_show_sources_and_no_secret(tmp_path: Path) -> None:
    with running(None, metrics_token="a-token-of-metrics", region="eu-north-1") as target:
        visitor = visitor_of(target)
        text = visitor.page("/settings")
        assert "a-token-of-metrics" not in text
        assert "***" in text
        chosen = without_tags(text.partition("<h2>Defaults</h2>")[0])
        assert "ORCAS_REGION eu-north-1 program" in chosen
        visitor.close()


def test_a_full_store_says_so_and_leads_to_the_disk() -> None:
    with running(None, disk_reserve=1 << 43) as target:
        visitor = visitor_of(target)
        text = visitor.page("/health")
        assert "<strong>full</strong>" in text
        assert "What fills the disk" in text
        assert "The disk is full" in visitor.page("/disk")
        visitor.close()


def test_requests_are_filtered_and_explained(visitor: Visitor, target: Target, bucket: str) -> None:
    visitor.page("/requests")
    client = target.client()
    client.put_object(Bucket=bucket, Key="good", Body=b"1")
    hostile = "<script>alert(1)</script>\x1b[2J"
    refusal(client.get_object, Bucket=bucket, Key=hostile)
    pages: list[str] = []

    def shown() -> bool:
        pages[:] = [visitor.page(f"/requests?bucket={bucket}")]
        return "NoSuchKey" in pages[0] and ">good<" in pages[0]

    assert wait_until(shown), pages
    assert "&lt;script&gt;" in pages[0]
    assert "<script>alert" not in pages[0]
    assert "\x1b" not in pages[0]
    assert "Usually: there is no object" in pages[0]
    failed = visitor.page(f"/requests?bucket={bucket}&failed=yes")
    assert ">good<" not in failed
    assert "NoSuchKey" in failed
    assert ">good<" in visitor.page(f"/requests?bucket={bucket}&key=go")
    assert "No request has come" in visitor.page(f"/requests?bucket={bucket}&code=SlowDown")


@pytest.fixture(scope="module")
def logging_target() -> Iterator[Target]:
    with running(None, log_level="info") as target:
        yield target


def test_the_log_is_filtered_and_hostile_lines_do_nothing(logging_target: Target) -> None:
    server = logging_target.server
    visitor = visitor_of(logging_target)
    hostile = "log/<script>alert(1)</script>\x1b[2J\u202egpj"
    wrong = Wire(server.endpoint, Identity(server.access_key, "wrong", server.region))
    assert wrong("GET", "/hostile-log/" + quote(hostile)).status == 403
    text = visitor.page("/log?search=hostile-log")
    assert "Request refused" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert 'title="RIGHT-TO-LEFT OVERRIDE">U+202E' in text
    for query in ("level=error&search=hostile-log", "search=there-is-no-such-text"):
        assert "No line fits" in visitor.page(f"/log?{query}")
    assert "Request refused" in visitor.page("/log?level=%3Cb%3E&search=HOSTILE-LOG")
    assert ">Ready<" in visitor.page("/log")
    assert server.secret_key not in visitor.page("/log")
    visitor.close()


def test_routes_of_replication_are_shown_and_tried_again(visitor: Visitor, target: Target, bucket: str) -> None:
    client = target.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    with running(None) as there:
        versioned(there.client(), bucket)
        add_target(target, "away", there.server.endpoint, there)
        rule = {"bucket": bucket, "target": "away", "to": bucket}
        admin(target, "POST", "replication/rules", rule)
        assert wait_until(lambda: bucket in visitor.page("/replication"))
        there.client().delete_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="k", Body=b"x")
        assert wait_until(lambda: "the target fails" in visitor.page("/replication"))
        assert "0 exceptions are tried again" in visitor.done("/replication/retry", {"bucket": bucket})
        assert "Both sides are compared" in visitor.done("/replication/retry", {"bucket": bucket, "everything": "yes"})
    assert "Nothing is tried again" in visitor.done("/replication/retry", {"bucket": "none"})
    client.delete_bucket_replication(Bucket=bucket)
    admin(target, "DELETE", "replication/targets/away")


def test_tasks_are_run_and_jobs_are_followed() -> None:
    # On a server of its own: a check reads everything that is stored, so on a shared one all that other tests have left.
    with running(None) as target:
        visitor = visitor_of(target)
        assert "has begun as job" in visitor.done("/tasks/run", {"task": "usage"})
        assert "was not begun" in visitor.done("/tasks/run", {"task": "../none"})
        text = visitor.done("/tasks/start", {"job": "check"})
        assert "has begun as job" in text
        assert "was not begun" in visitor.done("/tasks/start", {"job": "none"})
        rows: list[str] = []

        def ended() -> bool:
            rows[:] = re.findall(r"<tr><td>fsck<br>.*?</tr>", visitor.page("/tasks"), re.DOTALL)
            return len(rows) == 1 and "running" not in without_tags(rows[0]).split()

        assert wait_until(ended), rows
        assert "done" in without_tags(rows[0]).split(), rows
        (job,) = re.findall(r"<span class=\"hint code\">(\w+)</span>", rows[0])
        assert "was removed" in visitor.done("/tasks/end", {"id": job})
        assert "stays as it is" in visitor.done("/tasks/end", {"id": job})
        visitor.close()


def test_the_disk_names_uploads_and_aborts_them(visitor: Visitor, target: Target, bucket: str) -> None:
    client = target.client()
    upload = client.create_multipart_upload(Bucket=bucket, Key="half & <half>")["UploadId"]
    client.upload_part(Bucket=bucket, Key="half & <half>", UploadId=upload, PartNumber=1, Body=b"x" * 4096)
    text = visitor.page(f"/disk?bucket={bucket}")
    assert "half &amp; &lt;half&gt;" in text
    assert "4 KiB" in text
    answer = visitor.done("/disk/abort", {"bucket": bucket, "key": "half & <half>", "id": upload})
    assert "was aborted" in answer
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads") is None
    assert "stays as it is" in visitor.done("/disk/abort", {"bucket": bucket, "key": "k", "id": upload})


def test_the_disk_of_a_bucket_that_is_gone_is_no_failure(visitor: Visitor) -> None:
    answer = visitor.get("/disk?bucket=no-such-bucket-here")
    assert answer.status_code == 404
    assert "no such bucket" in answer.text


def test_usage_is_drawn(visitor: Visitor, target: Target, bucket: str) -> None:
    target.client().put_object(Bucket=bucket, Key="k", Body=b"x" * 2048)
    assert f'<bdi class="key">{bucket}</bdi>' in visitor.page("/usage?by=bucket&of=received")
    # A few bytes for less than a second.
    assert re.search(r'<td class="num">\d\.\d+e-\d+</td>', visitor.page("/usage?by=bucket&of=gb_months")) is None
    assert "must not be later" in visitor.page("/usage?since=2026-02-02&until=2026-02-01")
    assert visitor.get("/usage?by=<b>&of=<b>&since=<b>").status_code == 200


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running(tmp_path_factory.mktemp("sealed"), master_key=MASTER_KEY) as target:
        yield target


def test_keys_are_shown_made_and_rotated(sealed: Target) -> None:
    visitor = visitor_of(sealed)
    text = visitor.done("/keyring/create", {"name": "photos"})
    assert "Key photos was created" in text
    assert MASTER_KEY not in text
    key = re.findall(r'photos</bdi><br><span class="hint code">([^<]+)</span>', text)[0]
    assert "can be neither read nor written" in asked(text, 'value="disable"')
    rotated = visitor.done("/keyring/act", {"key": key, "name": "photos", "action": "rotate"})
    assert "has a new version" in rotated
    assert re.search(r"photos</bdi>.*?<td class=\"num\">2</td>", rotated, re.DOTALL)
    assert "is disabled" in visitor.done("/keyring/act", {"key": key, "name": "photos", "action": "disable"})
    assert "is enabled" in visitor.done("/keyring/act", {"key": key, "name": "photos", "action": "enable"})
    for action in ("destroy", "", "accept-older"):
        assert "stays as it is" in visitor.done("/keyring/act", {"key": key, "name": "photos", "action": action})
    visitor.close()


def test_a_key_is_destroyed_once_its_name_was_typed(sealed: Target) -> None:
    visitor = visitor_of(sealed)

    def keys() -> dict[str, dict[str, str]]:
        with session_of(sealed.client()) as session:
            return {key["name"]: key for key in session.admin("GET", "keys")["keys"]}

    visitor.done("/keyring/create", {"name": "old"})
    key = keys()["old"]["id"]
    assert f"/keyring/destroy?key={key}" in visitor.page("/keyring")
    assert "Destroy the key" in visitor.page(f"/keyring/destroy?key={key}")
    for form in ({"confirm": "odd", "days": "0"}, {"confirm": "old", "days": "1"}, {"confirm": "old"}):
        answer = visitor.post("/keyring/destroy", {"key": key, **form})
        assert answer.status_code == 400
        assert "Nothing was destroyed" in answer.text
    assert "Key old is destroyed in 14 days." in visitor.done(
        "/keyring/destroy", {"key": key, "confirm": "old", "days": "14"}
    )
    assert "is not destroyed" in visitor.done("/keyring/act", {"key": key, "name": "old", "action": "cancel"})
    assert "Key old is destroyed." in visitor.done("/keyring/destroy", {"key": key, "confirm": "old", "days": "0"})
    assert keys()["old"]["state"] == "destroyed"
    # It is gone, and has no form any more.
    assert f"/keyring/destroy?key={key}" not in visitor.page("/keyring")
    for gone in (key, "none"):
        assert visitor.get(f"/keyring/destroy?key={gone}").status_code == 404
    visitor.close()


def test_a_key_that_content_needs_is_kept(sealed: Target) -> None:
    visitor, client = visitor_of(sealed), sealed.client()
    client.create_bucket(Bucket="needs-its-key")
    client.put_object(Bucket="needs-its-key", Key="k", Body=b"1", ServerSideEncryption="AES256")
    with session_of(sealed.client()) as session:
        key = next(key["id"] for key in session.admin("GET", "keys")["keys"] if key["name"] == "orcas/s3")
    answer = visitor.post("/keyring/destroy", {"key": key, "confirm": "orcas/s3", "days": "0"})
    assert answer.status_code == 409, answer.text
    assert "The key is kept." in answer.text
    assert client.get_object(Bucket="needs-its-key", Key="k")["Body"].read() == b"1"
    visitor.close()


def test_a_store_without_a_keyring_says_how_to_get_one(visitor: Visitor) -> None:
    assert "ORCAS_MASTER_KEY" in visitor.page("/keyring")


def test_targets_and_their_dead_letters(tmp_path: Path) -> None:
    targets = tmp_path / "targets.toml"
    targets.write_text(
        '[hook]\ntype = "webhook"\nurl = "http://127.0.0.1:9/"\nsecret = "' + SECRET + '"\n', encoding="utf-8"
    )
    with running(None, event_targets_file=str(targets)) as target:
        visitor = visitor_of(target)
        assert "hook" in visitor.page("/events")
        assert "0 dead letters of hook are sent again" in visitor.done("/events/resend", {"target": "hook"})
        assert "stay as they are" in visitor.done("/events/resend", {"target": "../x"})
        assert "0 dead letters of hook were discarded" in visitor.done("/events/discard", {"target": "hook"})
        visitor.close()


def test_events_are_passed_on_and_only_to_who_has_signed_in(
    visitor: Visitor, stranger: Visitor, target: Target, bucket: str
) -> None:
    assert stranger.get("/events/stream").status_code == 303
    assert visitor.get("/events/stream?event=nonsense").status_code == 400
    with visitor.http.stream("GET", f"/_orcas/console/events/stream?bucket={bucket}") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        target.client().put_object(Bucket=bucket, Key="seen", Body=b"1")
        lines = answer.iter_lines()
        data = next(line for line in lines if line.startswith("data:"))
        assert '"key":"seen"' in data


def test_live_needs_the_history(tmp_path: Path) -> None:
    with running(None, metrics=False) as target:
        visitor = visitor_of(target)
        answer = visitor.get("/live")
        assert answer.status_code == 409
        assert "No history is kept" in answer.text
        visitor.close()


def test_charts_say_what_they_show_and_leave_gaps() -> None:
    chart = charts({"time": [1000.0, 1010.0, 1100.0], "requests_per_sec": [1.0, 3.0, 2.0]})[0]
    assert (
        'aria-label="Requests a second. all: now 2.0, from 1.0 to 3.0; refused or failed: nothing known."' in chart.svg
    )
    # Two pieces: between the second and the third there is no sample.
    path = re.findall(r'class="line line-0" d="([^"]*)"', chart.svg)[0]
    assert path.count("M") == 2
    assert path.count("L") == 1
    assert chart.legend[0] == ("all", "line-0", "2.0")


def test_charts_of_nothing_and_of_hostile_names() -> None:
    assert "nothing known" in line_chart("Empty", [], 3600, [Series("a", [])], str).svg
    assert "<b>" not in line_chart("<b>", [1.0], 3600, [Series("<b>", [None])], str).svg
    assert 'width="100.00"' in bar(7, 7)
    assert 'width="0.00"' in bar(1, 0)
    assert "a 1, b 3" in stacked("All", [("a", 1), ("b", 3)], lambda value: f"{value:.0f}")


def test_time_spans_are_said_in_words() -> None:
    assert [in_words(seconds) for seconds in (0, 61, 3600, 90_061)] == ["0 s", "1 min 1 s", "1 h", "1 d 1 h"]


def test_a_policy_that_denies_is_named() -> None:
    decision = {"action": "s3:GetObject", "decision": "denied", "policy": "the bucket policy", "statement": 2}
    entry = {
        "cause": "Access Denied",
        "likely_cause": None,
        "usual_cause": None,
        "advice": None,
        "decisions": [decision],
    }
    assert why(entry) == ["Access Denied.", "statement 2 of the bucket policy denies s3:GetObject."]
