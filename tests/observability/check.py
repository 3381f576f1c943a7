#!/usr/bin/env python3
"""The metrics of the order example, seen by a real Prometheus: scripts/observability.sh starts the servers and calls this.

    check.py ROOT FOLDER      FOLDER gets the logs and Prometheus' data

Three services, their messages published once more each, three hundred orders of which a third is sent twice and a third is rejected, and
one message that nobody can read. No process is killed: a counter lives as long as its process, and so it must equal what SQL counts.
Then every metric has its row in docs/observability.md, every query of the dashboard returns series, and promtool finds nothing.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ORDERS = 300
DEADLINE_SECONDS = 300  # for each thing that is waited for: it ends as soon as it is true
ROOT, FOLDER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SERVICES = {"orders": "order_service", "payments": "payment_service", "shipping": "shipping_service"}
# It has no external steps and no Redis: panels of these show nothing here.
NOT_IN_THE_EXAMPLE = ("skald_dependency_", "skald_front_", "skald_started_", "skald_unknown_calls", "skald_unsettled_steps")
complaints = []


def complain(what):
    complaints.append(what)
    print(f"observability: WRONG: {what}", flush=True)


def say(what):
    print(f"observability: {what}", flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, headers=None, body=None):
    request = urllib.request.Request(url, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(), refused.headers


def url_of(service):
    return os.environ[f"DATABASE_URL_{service.upper()}"]


def sql(service, statement):
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url_of(service), "-c", statement],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def wait_for(what, condition):
    until = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            if condition():
                return
        except (OSError, RuntimeError):
            pass  # not there yet
        if time.monotonic() > until:
            raise SystemExit(f"observability: {what} did not happen within {DEADLINE_SECONDS} s")
        time.sleep(0.25)


class Running:
    """Everything that is started, ended in the end."""

    def __init__(self):
        self.all = []

    def start(self, name, command, environment=None):
        log = open(FOLDER / f"{name}.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        self.all.append(process)
        return process

    def end(self):
        for process in reversed(self.all):
            process.send_signal(signal.SIGTERM)
        for process in self.all:
            process.wait(60)


class Prometheus:
    def __init__(self, running, health_ports):
        self.port = free_port()
        targets = [f"127.0.0.1:{port}" for port in health_ports.values()]
        (FOLDER / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(ROOT / "docker/observability/alerts.yml")],
            "scrape_configs": [{"job_name": "skald", "static_configs": [{"targets": targets}]}]}))
        running.start("prometheus", ["prometheus", f"--config.file={FOLDER}/prometheus.yml", f"--storage.tsdb.path={FOLDER}/tsdb",
                                     f"--web.listen-address=127.0.0.1:{self.port}"])
        wait_for("Prometheus is ready", lambda: get(f"http://127.0.0.1:{self.port}/-/ready")[0] == 200)

    def query(self, text):
        _, body, _ = get(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        answer = json.loads(body)
        if answer["status"] != "success":
            raise SystemExit(f"observability: {text}: {answer['error']}")
        return answer["data"]["result"]

    def number(self, text):
        found = self.query(text)
        return float(found[0]["value"][1]) if found else None


def start_services(running, bin_folder):
    ports, entry = {}, free_port()
    for service, program in SERVICES.items():
        ports[service] = free_port()
        running.start(service, [str(bin_folder / program)],
                      {"DATABASE_URL": url_of(service), "SKALD_HEALTH_LISTEN": f"127.0.0.1:{ports[service]}",
                       **({"SKALD_HTTP_LISTEN": f"127.0.0.1:{entry}"} if service == "orders" else {})})
        wait_for(f"{service} is ready", lambda p=ports[service]: get(f"http://127.0.0.1:{p}/readyz")[0] == 200)
    return ports, entry


def place_orders(entry):
    """Every third customer has no wallet, and every third order is sent twice under its key. Returns the statuses."""
    def place(n):
        body = json.dumps({"customer": "poor" if n % 3 == 0 else "rich", "sku": "tea", "quantity": 1, "cents": 100}).encode()
        return [get(f"http://127.0.0.1:{entry}/orders", {"Idempotency-Key": f"order-{n}"}, body)[0]
                for _ in range(2 if n % 3 == 1 else 1)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return [status for statuses in pool.map(place, range(ORDERS)) for status in statuses]


def all_is_done(prometheus):
    if sql("orders", "SELECT count(*) FROM skald.saga WHERE finished_at IS NULL") != "0":
        return False
    if any(sql(s, "SELECT count(*) FROM skald.outbox") != "0" for s in SERVICES):
        return False
    # Copies are still under way until as many deliveries have ended as arrived, twice in a row.
    text = "sum(skald_step_deliveries_total) - sum(skald_step_results_total)"
    before = prometheus.number("sum(skald_step_deliveries_total)")
    time.sleep(3)
    return prometheus.number(text) == 0 and prometheus.number("sum(skald_step_deliveries_total)") == before


def compare(prometheus):
    """Each query, and the SQL that must say the same."""
    steps = "status = '{}' AND step <> '' AND step {} LIKE '%.compensate'"
    pairs = []
    for service in SERVICES:
        own = f'service="{service}"'
        # create-order ran in the request's own transaction, and was never delivered forward.
        forward = steps.format("completed", "NOT") + " AND step <> 'create-order'"
        pairs += [
            (f'sum(skald_step_results_total{{{own},direction="forward",result="completed"}})', service,
             f"SELECT count(*) FROM skald.idempotency WHERE {forward}"),
            (f'sum(skald_step_results_total{{{own},direction="compensation",result="completed"}})', service,
             f"SELECT count(*) FROM skald.idempotency WHERE {steps.format('completed', '')}"),
            (f'sum(skald_step_results_total{{{own},result="rejected"}})', service,
             "SELECT count(*) FROM skald.idempotency WHERE status = 'rejected'"),
            (f'sum(skald_step_results_total{{{own},result="duplicate"}})', service,
             "SELECT coalesce(sum(duplicates), 0) FROM skald.deliveries_seen"),
            (f'sum(skald_outbox_rows{{{own}}})', service, "SELECT count(*) FROM skald.outbox"),
            (f'sum(skald_parked_deliveries{{{own}}}) or vector(0)', service, "SELECT count(*) FROM skald.parked"),
            # The message that nobody can read was published once more, too: two deliveries, and one row for both.
            (f'sum(skald_parked_total{{{own}}})', service, "SELECT 2 * count(*) FROM skald.parked"),
        ]
    pairs += [
        ('sum(skald_saga_seconds_count{result="completed"})', "orders", "SELECT count(*) FROM skald.saga WHERE status = 'completed'"),
        ('sum(skald_saga_seconds_count{result="compensated"})', "orders", "SELECT count(*) FROM skald.saga WHERE status = 'compensated'"),
        ('sum(skald_http_requests_total{route="POST /orders",status="202"}) - sum(skald_http_replayed_total{route="POST /orders"})',
         "orders", "SELECT count(*) FROM skald.response WHERE status_code = 202"),
        ('sum(skald_http_replayed_total{route="POST /orders"})', "orders", f"SELECT {ORDERS // 3}"),
        ('sum(skald_sagas{state="stuck"})', "orders", "SELECT count(*) FROM skald.saga WHERE finished_at IS NULL"),
    ]

    def differing():
        return [(text, seen, said) for text, service, statement in pairs
                if (seen := prometheus.number(text)) != (said := float(sql(service, statement)))]
    until = time.monotonic() + 60  # what is read every few seconds may be that old
    while (wrong := differing()) and time.monotonic() < until:
        time.sleep(1)
    for text, seen, said in wrong:
        complain(f"{text} is {seen}, and SQL says {said}")
    say(f"{len(pairs) - len(wrong)} of {len(pairs)} figures of Prometheus equal SQL's")
    for text in ('sum(skald_step_results_total{result="completed"})', 'sum(skald_step_results_total{result="duplicate"})',
                 'sum(skald_step_results_total{result="rejected"})'):
        say(f"{text} = {prometheus.number(text):.0f}")
        if not prometheus.number(text):
            complain(f"{text}: nothing was compared")


def listed_metrics():
    return dict(re.findall(r"^\| `(skald_[a-z_]+)` \| ([a-z]+) \|", (ROOT / "docs/observability.md").read_text(), re.M))


def check_page(text):
    """What a process exports is what docs/observability.md lists."""
    exported = dict(re.findall(r"^# TYPE (skald_\S+) (\S+)$", text, re.M))
    listed = listed_metrics()
    for name in sorted(exported.items() ^ listed.items()):
        complain(f"{name} is not the same in /metrics and docs/observability.md")
    allowed = {"service", "step", "definition", "result", "direction", "reason", "route", "status", "state", "le"}
    for name in sorted(set(re.findall(r'[{,]([a-z_]+)="', text)) - allowed):
        complain(f"the label {name} is not one of {sorted(allowed)}")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    if checked.returncode:
        complain(f"promtool check metrics: {checked.stdout}{checked.stderr}")


def names_in(text):
    """The metrics that a query or a rule reads, as docs/observability.md lists them."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bskald_[a-z_]+", text)}


def check_names(listed):
    """Of a metric that does not exist, a panel and an alert say nothing, as they do when all is well."""
    for file in ("dashboard.json", "alerts.yml"):
        for name in sorted(names_in((ROOT / "docker/observability" / file).read_text()) - listed):
            complain(f"{file} reads {name}, which does not exist")


def check_dashboard(prometheus):
    panels = json.loads((ROOT / "docker/observability/dashboard.json").read_text())["panels"]
    queries = [(p["title"], t["expr"]) for p in panels for t in p["targets"]]
    for title, text in queries:
        is_empty = not prometheus.query(text.replace("$service", ".*").replace("$__rate_interval", "5m"))
        if is_empty and not all(name.startswith(NOT_IN_THE_EXAMPLE) for name in names_in(text)):
            complain(f"the dashboard's panel '{title}' shows nothing: {text}")
    say(f"{len(queries)} queries of the dashboard were run")


def check_locked(ports):
    """A table that somebody has locked holds up neither a scrape nor a probe."""
    lock = subprocess.Popen(["psql", "-X", "-q", url_of("orders"), "-c",
                             "BEGIN; LOCK skald.saga, skald.outbox, skald.parked; SELECT pg_sleep(8)"], stdout=subprocess.DEVNULL)
    wait_for("the tables are locked", lambda: sql(
        "orders", "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'skald.parked'::regclass")
        != "0")
    for path in ("metrics", "livez"):
        if get(f"http://127.0.0.1:{ports['orders']}/{path}")[0] != 200:
            complain(f"/{path} does not answer while tables are locked")
    if lock.poll() is not None:
        complain("the lock was gone before all had answered: nothing was seen")
    lock.wait()


def main():
    running = Running()
    bin_folder = ROOT / "build/examples/order_saga"
    try:
        ports, entry = start_services(running, bin_folder)
        sql("payments", "INSERT INTO wallet VALUES ('rich', 100000000)")
        sql("shipping", f"INSERT INTO stock VALUES ('tea', {ORDERS // 2})")  # the last of them are rejected after the charge
        running.start("duplicate", [str(ROOT / "build/tools/skald"), "duplicate", "--staging", "--service", *SERVICES, "--times", "1",
                                    "--later", "1s"])
        prometheus = Prometheus(running, ports)
        wait_for("three targets are up", lambda: prometheus.number('sum(up{job="skald"})') == 3)
        sql("orders", "SELECT skald.enqueue('payments', 'charge-payment', 'nobody-can-read-this', '\\x00'::bytea)")
        statuses = place_orders(entry)
        say(f"{len(statuses)} requests for {ORDERS} orders: {sorted(set(statuses))}")
        get(f"http://127.0.0.1:{entry}/no/such/path/{time.monotonic()}")
        get(f"http://127.0.0.1:{entry}/sagas/order-1")
        wait_for("all orders have ended", lambda: all_is_done(prometheus))
        sql("orders", "INSERT INTO skald.saga (scope, key, definition, data, itinerary, status)"
                      " VALUES ('', 'never-ends', 'place-order', '{}', '', 'stuck')")
        compare(prometheus)
        for port in ports.values():
            check_page(get(f"http://127.0.0.1:{port}/metrics")[1])
        check_names(set(listed_metrics()))
        check_dashboard(prometheus)
        check_locked(ports)
    finally:
        running.end()
    if complaints:
        raise SystemExit(f"observability: {len(complaints)} things are wrong")
    say("all is well")


main()
