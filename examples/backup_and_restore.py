"""Backup and restore with the `orcas` command, as in a cron job: back up a running store twice, then restore it.

Run it with `python backup_and_restore.py`. Everything is in a temporary directory. In a shell, the commands are
`orcas backup TARGET --data DIR` and `orcas restore TARGET --data NEW`. `orcas fsck --data NEW` verifies the result.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import orcas


def command(*arguments: str | Path) -> dict:
    """Run `orcas … --json` and return its output. If the command fails, exit: it has printed the reason on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "orcas", *map(str, arguments), "--json"], stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        store, backups, restored = (Path(directory, name) for name in ("store", "backups", "restored"))

        with orcas.Server(store) as server:
            s3 = server.client()
            s3.create_bucket(Bucket="photos")
            s3.put_object(Bucket="photos", Key="1.jpg", Body=b"\xff\xd8" + bytes(1_000_000))
            first = command("backup", backups, "--data", store)
            print(f"first backup: {first['copied_bytes']} of {first['bytes']} bytes copied")

            s3.put_object(Bucket="photos", Key="2.jpg", Body=b"\xff\xd8" + bytes(1000))
            second = command("backup", backups, "--data", store)
            print(f"second backup: {second['copied_bytes']} of {second['bytes']} bytes copied")

            s3.delete_object(Bucket="photos", Key="1.jpg")  # by mistake, after the backup
            print("left in the store:", [entry["Key"] for entry in s3.list_objects_v2(Bucket="photos")["Contents"]])

        # This verifies every file of the backup. A backup contains the keys of the store, so keep it private.
        done = command("restore", backups, "--data", restored)
        print(
            f"restored: {done['objects']} objects, as of the second backup, ready for orcas.Server({restored.name!r})"
        )


if __name__ == "__main__":
    main()
