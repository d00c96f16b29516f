"""A CSV table to S3 and back with the standard library and boto3: no pandas, no temporary file.

Run it with `python csv_table.py`. It stores a table as an object, reads it row by row while it is being received, and
reads only the end of it with a range request. The server runs in memory and leaves nothing behind.
"""

import codecs
import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orcas

CITIES = ("Oslo", "Rome", "Lima")
ROWS = 3000


def write_table(s3: Any, bucket: str, key: str, header: list[str], rows: list[list[object]]) -> None:
    """Store `header` and `rows` as a CSV object."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    s3.put_object(Bucket=bucket, Key=key, Body=text.getvalue().encode(), ContentType="text/csv")


def read_table(s3: Any, bucket: str, key: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV object as dictionaries, decoded while they are being received."""
    body = s3.get_object(Bucket=bucket, Key=key)["Body"]
    with body:
        yield from csv.DictReader(codecs.getreader("utf-8")(body))


def main() -> None:
    with orcas.Server(memory=True) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="tables")
        rows = [[number, CITIES[number % 3], round(10 + number % 7 * 0.5, 1)] for number in range(ROWS)]
        write_table(s3, "tables", "weather/2026.csv", ["day", "city", "celsius"], rows)
        size = s3.head_object(Bucket="tables", Key="weather/2026.csv")["ContentLength"]
        print(f"stored {ROWS} rows, {size} bytes")

        degrees = defaultdict(list)
        for row in read_table(s3, "tables", "weather/2026.csv"):
            degrees[row["city"]].append(float(row["celsius"]))
        for city, values in degrees.items():
            print(f"{city}: {len(values)} days, {sum(values) / len(values):.2f} °C on average")

        tail = s3.get_object(Bucket="tables", Key="weather/2026.csv", Range="bytes=-40")["Body"].read()
        print("last row:", tail.decode().splitlines()[-1])


if __name__ == "__main__":
    main()
