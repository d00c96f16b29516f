"""What Orcas is compared with: uvicorn and the least ASGI application that returns the same bytes to the same requests.

It runs in its own process. One line of JSON on stdin gives the answer to each method: headers and the size of the body.
One line on stdout gives the address.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import uvicorn


def application(answers: dict[str, Any]) -> Any:
    """Answers by method, whatever the target."""
    starts = {
        method: {
            "type": "http.response.start",
            "status": 200,
            "headers": [(name.encode(), value.encode()) for name, value in answer["headers"]],
        }
        for method, answer in answers.items()
    }
    bodies = {
        method: {"type": "http.response.body", "body": b"z" * answer["size"]} for method, answer in answers.items()
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        method = scope["method"]
        if method == "PUT":
            while (await receive()).get("more_body"):
                pass
        await send(starts[method])
        await send(bodies[method])

    return app


def main() -> None:
    """Serve until killed."""
    answers = json.loads(sys.stdin.readline())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        host, port = listener.getsockname()
        sys.stdout.write(f"bare ready http://{host}:{port}\n")
        sys.stdout.flush()
        # The same settings as Orcas gives uvicorn.
        config = uvicorn.Config(
            application(answers),
            http="httptools",
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
