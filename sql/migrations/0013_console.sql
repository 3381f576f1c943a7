-- Indexes for `skald console`, which lists sagas by what an operator looks for. An index costs every saga a little, so there are few: the
-- others (docs/console.md) answer the rest. On a table of millions of rows, building the first takes a while, and sagas wait for it.

-- A key is known, and its scope is not.
CREATE INDEX saga_by_key ON skald.saga (key, scope);
-- In these three only few sagas ever are.
CREATE INDEX saga_stuck ON skald.saga (created_at) WHERE status = 'stuck';
CREATE INDEX saga_unknown ON skald.saga (created_at) WHERE status = 'unknown';
CREATE INDEX saga_compensated ON skald.saga (finished_at) WHERE status = 'compensated' AND expiring IS NULL;
