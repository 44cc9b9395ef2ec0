"""What gets past the proxy of a server: a node's requests, of a node's size, and nothing else."""

import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

pytest.importorskip("flwr")

from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from eunoe.flower.deploy.init import init
from tests.attacks.proxy import NEEDS_NGINX, Outsider, free_ports, proxy

pytestmark = NEEDS_NGINX
MB = 1_000_000
# What a registered node of Flower 1.41 requests under /v1/fleet/.
PATHS = (
    *("activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab", "pull-messages"),
    *("pull-object", "confirm-message-received", "push-messages", "push-object"),
)


class Recorder(BaseHTTPRequestHandler):
    """Stands where the SuperLink does and notes what reaches it."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        self.server.seen.append((self.path, length))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_PUT = do_POST

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture(scope="module", name="behind")
def _behind(tmp_path_factory):
    """An outsider, and what has reached the port behind the proxy."""
    folder, port = tmp_path_factory.mktemp("port") / "app", free_ports(3)
    init(folder, 1, port=port)
    (folder / "signed" / "app.json").write_text("{}")
    server = ThreadingHTTPServer(("127.0.0.1", port + 1), Recorder)
    server.seen = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificates" / "server.crt", folder / "certificates" / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    with proxy(folder, port):
        yield Outsider(folder / "nodes" / "node-0" / "ca.crt", port), server.seen
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _unseen(behind):
    behind[1].clear()


def test_what_a_node_needs_passes(behind):
    outsider, seen = behind
    wanted = [f"/v1/fleet/{name}" for name in PATHS]
    for path in wanted:
        assert outsider.ask(path, b"12345") == (200, b"ok")
    assert seen == [(path, 5) for path in wanted]


def test_a_piece_of_an_update_passes_and_no_more(behind):
    """Flower's pieces have 5 MiB."""
    outsider, seen = behind
    assert outsider.ask("/v1/fleet/push-object", bytes(5 * 2**20 + 1000))[0] == 200
    assert seen == [("/v1/fleet/push-object", 5 * 2**20 + 1000)]
    assert outsider.ask("/v1/fleet/push-object", bytes(7 * MB))[0] in (413, 0)
    assert len(seen) == 1


def test_no_other_path_of_flower_passes(behind):
    """Commands, the interface of the server's own apps, and registration by the node itself."""
    outsider, seen = behind
    allowed = {f"/v1/fleet/{name}" for name in PATHS}
    others = {path for _, path in PROTOBUF_REQUEST_TYPES} - allowed
    assert {"/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task"} < others
    assert "/v1/fleet/register-node" in others
    for path in sorted(others | {"/", "/docs", "/openapi.json", "/health", "/v1/runtime/responses"}):
        assert outsider.ask(path)[0] == 404, path
        assert outsider.ask(path, method="GET")[0] == 404, path
    assert seen == []


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/fleet/../control/start-run", "/v1/fleet/get-run/../../control/start-run"),
        *("/v1/fleet/%2e%2e/control/start-run", "/v1/fleet/..%2fcontrol/start-run"),
        *(
            "/v1/fleet/get-run%2f..%2f..%2fcontrol/start-run",
            "/v1/fleet/get-run/../../../v1/control/start-run",
        ),
        *("/V1/CONTROL/start-run", "//v1//control//start-run", "/v1/control/start-run?/v1/fleet/get-run"),
        *("/v1/fleet/get-run;/../../control/start-run", "/v1/fleet/get-run%00/../control/start-run"),
        *("/v1/fleet/get-run%0a/v1/control/start-run", "https://127.0.0.1/v1/control/start-run"),
    ],
)
def test_no_spelling_of_a_path_gets_around_it(behind, path):
    outsider, seen = behind
    assert outsider.ask(path)[0] in (400, 404)
    assert seen == []


def test_what_passes_has_the_path_that_was_allowed(behind):
    outsider, seen = behind
    outsider.ask("/v1/fleet//./get-r%75n?x=/v1/control/start-run")
    assert seen == [("/v1/fleet/get-run", 0)]


def test_only_posts_pass(behind):
    outsider, seen = behind
    for method in ("GET", "PUT", "DELETE"):
        assert outsider.ask("/v1/fleet/get-run", method=method)[0] in (403, 405)
    assert seen == []


def test_headers_do_not_lead_elsewhere(behind):
    outsider, seen = behind
    other = "/v1/control/start-run"
    outsider.ask("/v1/fleet/get-run", X_Original_URL=other, X_HTTP_Method_Override=other, Upgrade="h2c")
    assert seen == [("/v1/fleet/get-run", 0)]


@pytest.mark.parametrize(
    "path", ["/v1/fleet/activate-node", "/v1/fleet/push-object", "/v1/control/start-run"]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_big_body_of_an_outsider_is_cut(behind, path, chunked):
    """With its length said in the header, or unsaid."""
    outsider, seen = behind
    body, headers = bytes(20 * MB), {}
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        headers = {"Transfer_Encoding": "chunked"}
    assert outsider.ask(path, body, **headers)[0] in (413, 404, 0)
    assert seen == []


def test_the_signed_app_is_served_to_this_machine_only(behind):
    outsider, _ = behind
    assert outsider.ask("/hub/fetch-fab")[0] == 404
    assert outsider.ask("/app.fab", method="GET")[0] == 404
