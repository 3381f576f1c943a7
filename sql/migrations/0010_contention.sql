-- Which steps contend for rows, as the processes of this service have found (docs/contention.md). One row for each step whose limit has
-- ever changed; `skald doctor` reads it. Nothing depends on it.
CREATE TABLE skald.contention (
    step             skald.step  NOT NULL,
    lanes            integer     NOT NULL,
    batch            integer     NOT NULL,
    takes_turns      boolean     NOT NULL,
    conflicts        bigint      NOT NULL,
    reason           text        NOT NULL,
    changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_conflict_at timestamptz,
    CONSTRAINT contention_once PRIMARY KEY (step)
);
