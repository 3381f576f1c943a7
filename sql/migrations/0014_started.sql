-- Steps that have begun and not ended: each waits for a call to another system, for a signal, or for a time. Their deliveries are acked: what
-- goes on with them is a row here, which is due at a time. Whoever takes a due row owns it until its lease ends, and then it is due again.
-- See docs/adr/0041-started-steps-are-rows.md.

CREATE TABLE skald.started (
    scope        skald.scope NOT NULL,
    key          skald.key   NOT NULL,
    step         skald.step  NOT NULL,  -- with its `.compensate`
    kind         text        NOT NULL,
    dependency   text        NOT NULL DEFAULT '',  -- of a call: what is called; '' if it has no name
    due_at       timestamptz NOT NULL,  -- when it is to be taken; of one that is owned, when the lease ends
    lease        interval    NOT NULL,
    unknown_after interval,             -- of a call: for how long it may be in doubt before its saga is shown as unknown
    until        timestamptz,           -- of a wait: when it is over; `due_at` may be earlier, to look at a command
    ends_at      timestamptz,           -- of a call: from when on its end is known without the other side: an answer, a cancel, the deadline
    owner        text,                  -- the process that has it; NULL: none
    fence        integer     NOT NULL DEFAULT 0,  -- of the current or latest owner: what an earlier one still does is refused
    in_doubt     boolean     NOT NULL DEFAULT false,  -- of a call: it was made, and what became of it is not known
    calls        integer     NOT NULL DEFAULT 0,  -- how often it was made, the current one included
    looks        integer     NOT NULL DEFAULT 0,  -- how often the other side was asked in a row without an answer
    tries        integer     NOT NULL DEFAULT 0,  -- how often recording its end has failed
    doubt_since  timestamptz,
    unknown_at   timestamptz,           -- from when on its saga is to be shown as unknown; NULL: never, or it is
    checkpoint   jsonb,                 -- what the latest owner kept of a long call
    answer       jsonb,                 -- what is known of its end: {"happened": result}, {"did_not_happen": why}, {"signal": body}
    error        text,
    -- The delivery that began it, with the data that its first transaction left.
    message_id   text        NOT NULL,
    type         text        NOT NULL,
    content_type text        NOT NULL,
    body         bytea       NOT NULL,
    headers      jsonb       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT started_once PRIMARY KEY (scope, key, step),
    CONSTRAINT kind_is_known CHECK (kind IN ('call', 'wait')),
    CONSTRAINT only_a_call_is_in_doubt CHECK (kind = 'call' OR NOT in_doubt),
    CONSTRAINT counts_count_up CHECK (fence >= 0 AND calls >= 0 AND looks >= 0 AND tries >= 0)
);
CREATE INDEX started_due ON skald.started (kind, dependency, due_at);
CREATE INDEX started_ending ON skald.started (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX started_unknown ON skald.started (unknown_at) WHERE unknown_at IS NOT NULL;
-- Rows come and go all day, as in the outbox.
ALTER TABLE skald.started SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                               autovacuum_vacuum_cost_delay = 0);

-- Signals: what a waiting step waits for. One is kept from before its step waits until the saga's records are purged, so that the same signal
-- again is known as the same.
CREATE TABLE skald.signal (
    scope       skald.scope NOT NULL,
    key         skald.key   NOT NULL,
    step        skald.step  NOT NULL,
    body        jsonb       NOT NULL,
    fingerprint bytea       NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT signal_once PRIMARY KEY (scope, key, step)
);

-- The steps that processes of this service have had since the database is its own, and whether any of them takes signals under that name: one
-- for a step that never does is refused. Nothing is forgotten, since versions run side by side.
CREATE TABLE skald.hosted (
    step          skald.step NOT NULL,
    takes_signals boolean    NOT NULL,
    CONSTRAINT hosted_once PRIMARY KEY (step)
);

-- The message handlers likewise, and what the queue of each is to be bound to, as the process that started last had it: an array of
-- {exchange, routing_key, type}. For whoever looks at the broker (`skald doctor`).
CREATE TABLE skald.handler (
    handler     skald.step  NOT NULL,
    bindings    jsonb       NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT handler_once PRIMARY KEY (handler)
);

-- By a process that starts, before it has any of them. What is known is not touched: ON CONFLICT would lock its row, and a COMMIT of that
-- waits for a standby that is away, and the start with it.
CREATE FUNCTION skald.record_hosted(steps text[], take_signals boolean[], handlers text[] DEFAULT '{}', bindings text[] DEFAULT '{}')
RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO skald.hosted AS h (step, takes_signals)
    SELECT n.step, bool_or(n.takes) FROM unnest(steps, take_signals) AS n(step, takes)
     WHERE NOT EXISTS (SELECT FROM skald.hosted k WHERE k.step = n.step AND (k.takes_signals OR NOT n.takes))
     GROUP BY 1 ORDER BY 1
    ON CONFLICT ON CONSTRAINT hosted_once DO UPDATE SET takes_signals = true WHERE excluded.takes_signals AND NOT h.takes_signals;
    INSERT INTO skald.handler AS h (handler, bindings)
    SELECT n.handler, n.bindings::jsonb FROM unnest(handlers, bindings) AS n(handler, bindings)
     WHERE NOT EXISTS (SELECT FROM skald.handler k WHERE (k.handler, k.bindings) = (n.handler, n.bindings::jsonb))
     ORDER BY 1
    ON CONFLICT ON CONSTRAINT handler_once DO UPDATE SET bindings = excluded.bindings, recorded_at = clock_timestamp();
$$;

-- Held from when a step starts, or a signal or a command is given, to the end of that transaction: the row of the one can't be seen
-- by the other before it commits. Two sagas with one number only wait for each other. After the guard's record and before the saga's row.
CREATE FUNCTION skald.lock_wait(of_scope text, of_key text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_advisory_xact_lock(hashtextextended(of_scope || chr(10) || of_key, 14)) $$;

-- Records that a step has started. `due_in`: from now; the deadline of its saga comes first where it is earlier. A signal or a command
-- that is there already makes it due at once.
CREATE FUNCTION skald.start_step(s skald.started, due_in interval, deadline timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known jsonb;
    ends  timestamptz;
    told  boolean;
BEGIN
    -- What is given at this moment is seen after that, or sees this row.
    PERFORM skald.lock_wait(s.scope, s.key);
    told := EXISTS (SELECT FROM skald.control c WHERE (c.scope, c.key) = (s.scope, s.key));
    IF s.kind = 'wait' THEN
        known := (SELECT jsonb_build_object('signal', g.body) FROM skald.signal g WHERE (g.scope, g.key, g.step) = (s.scope, s.key, s.step));
        ends := clock_timestamp() + due_in;
    END IF;
    INSERT INTO skald.started (scope, key, step, kind, dependency, due_at, until, ends_at, lease, unknown_after, answer, message_id, type,
                               content_type, body, headers)
    VALUES (s.scope, s.key, s.step, s.kind, s.dependency,
            CASE WHEN known IS NOT NULL OR ends IS NULL OR told THEN clock_timestamp() ELSE least(ends, deadline) END,
            ends, CASE WHEN s.kind = 'call' THEN CASE WHEN told THEN clock_timestamp() ELSE deadline END END, s.lease, s.unknown_after, known, s.message_id,
            s.type, s.content_type, s.body, s.headers);
    IF NOT FOUND THEN PERFORM skald.assert_written('skald.started', 1, 0); END IF;
END $$;

-- How long an owner has a row before somebody else may take it. Who has a wait only records its end: that takes a moment, and nobody who dies
-- meanwhile is to make a timer late. A transaction that records it may stand still for the whole of `lease` (limit_silence): its row is locked.
CREATE FUNCTION skald.owned_for(kind text, lease interval) RETURNS interval
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN kind = 'wait' THEN least(lease, interval '0.5 seconds') ELSE lease END $$;

-- Takes at most `most` rows that are due, for `new_owner`. `was_in_doubt`: a call may have been made before, and the other side is to be asked
-- first. One that may be called now is marked as in doubt here, before the call; a cancelled saga too has steps that are called: those that
-- undo it. `command`: the latest command for its saga. The time is one that an index scan can begin at, which clock_timestamp() is not: what
-- is not due costs nothing, however much it is. Without a dependency: calls that can end without the other side, which may be ill, and those
-- in doubt for so long that somebody must be told.
CREATE FUNCTION skald.take_started(new_owner text, of_kind text, of_dependency text, most integer)
RETURNS TABLE (taken skald.started, was_in_doubt boolean, command text, command_reason text, at timestamptz)
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
    WITH of_one AS MATERIALIZED (
        SELECT * FROM skald.started s
         WHERE of_dependency IS NOT NULL AND s.kind = of_kind AND s.dependency = of_dependency AND s.due_at <= statement_timestamp()
         ORDER BY s.due_at LIMIT most FOR UPDATE SKIP LOCKED),
    ending AS MATERIALIZED (
        SELECT * FROM skald.started s
         WHERE of_dependency IS NULL AND s.ends_at <= statement_timestamp() AND s.due_at <= statement_timestamp()
           AND (s.answer IS NOT NULL OR NOT s.in_doubt)
         ORDER BY s.ends_at LIMIT most FOR UPDATE SKIP LOCKED),
    unknown AS MATERIALIZED (
        SELECT * FROM skald.started s
         WHERE of_dependency IS NULL AND s.unknown_at <= statement_timestamp() AND s.due_at <= statement_timestamp() AND s.answer IS NULL
         ORDER BY s.unknown_at LIMIT most FOR UPDATE SKIP LOCKED),
    due AS (
        SELECT s.scope, s.key, s.step, s.in_doubt, c.action, c.why,
               s.kind = 'call' AND s.answer IS NULL AND NOT s.in_doubt AND coalesce(c.action, 'resume') <> 'pause' AS is_called
          FROM (SELECT * FROM of_one UNION ALL SELECT * FROM ending UNION ALL SELECT * FROM unknown) AS s
          LEFT JOIN LATERAL (
               SELECT c.action, coalesce(c.reason, c.action || ' by ' || c.requested_by) AS why FROM skald.control c
                WHERE (c.scope, c.key) = (s.scope, s.key)
                  AND c.home = coalesce(s.headers->>'x-saga-home', (SELECT o.name FROM skald.service o))) AS c ON true)
    UPDATE skald.started s
       SET owner = new_owner, fence = s.fence + 1, due_at = clock_timestamp() + skald.owned_for(s.kind, s.lease),
           in_doubt = s.in_doubt OR due.is_called, calls = s.calls + due.is_called::integer,
           doubt_since = CASE WHEN s.in_doubt THEN coalesce(s.doubt_since, clock_timestamp()) END,
           unknown_at = CASE WHEN due.is_called THEN clock_timestamp() + s.unknown_after ELSE s.unknown_at END
      FROM due
     WHERE (s.scope, s.key, s.step) = (due.scope, due.key, due.step)
    RETURNING s, due.in_doubt, due.action, due.why, clock_timestamp()
$$;

-- Of a transaction that locks a started row: the server ends a session that stands still in it for longer than the row's lease. Nobody takes
-- over before that, however long the lease is over.
CREATE FUNCTION skald.limit_silence(lease interval) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own interval := current_setting('idle_in_transaction_session_timeout')::interval;
BEGIN
    IF own = interval '0' OR lease < own THEN
        PERFORM set_config('idle_in_transaction_session_timeout', ceil(extract(epoch FROM lease) * 1000)::bigint::text, true);
    END IF;
END $$;

-- Of a transaction that locks what a saga has started here, as a command does.
CREATE FUNCTION skald.limit_silence_of(of_scope text, of_key text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT skald.limit_silence(min(s.lease)) FROM skald.started s WHERE (s.scope, s.key) = (of_scope, of_key) HAVING count(*) > 0 $$;

-- Extends leases, and keeps checkpoints where there are some. A row for each that is still the owner's, with the latest command. What another
-- transaction has locked is not waited for, since all that a process has is renewed by one thread: it is not extended then.
CREATE FUNCTION skald.renew_started(scopes text[], keys text[], steps text[], fences integer[], checkpoints text[])
RETURNS TABLE (ord integer, is_extended boolean, command text)
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
    WITH asked AS (
        SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k, w.t COLLATE "C" AS t, w.f, nullif(w.c, '') AS c, w.o
          FROM unnest(scopes, keys, steps, fences, checkpoints) WITH ORDINALITY AS w(s, k, t, f, c, o)),
    free AS (
        SELECT s.scope, s.key, s.step, w.c, w.o
          FROM asked w
          JOIN skald.started s ON s.scope = w.s AND s.key = w.k AND s.step = w.t AND s.fence = w.f AND s.owner IS NOT NULL
           FOR UPDATE OF s SKIP LOCKED),
    extended AS (
        UPDATE skald.started s SET due_at = clock_timestamp() + skald.owned_for(s.kind, s.lease), checkpoint = coalesce(f.c::jsonb, s.checkpoint)
          FROM free f WHERE (s.scope, s.key, s.step) = (f.scope, f.key, f.step)
        RETURNING f.o)
    SELECT w.o::integer, e.o IS NOT NULL, (SELECT c.action FROM skald.control c
                                            WHERE (c.scope, c.key) = (s.scope, s.key)
                                              AND c.home = coalesce(s.headers->>'x-saga-home', (SELECT o.name FROM skald.service o)))
      FROM asked w
      JOIN skald.started s ON s.scope = w.s AND s.key = w.k AND s.step = w.t AND s.fence = w.f AND s.owner IS NOT NULL
      LEFT JOIN extended e ON e.o = w.o
$$;

-- Gives one back, to be taken again in `due_in`. Whether it was still the owner's; NULL if another transaction has it locked now: nothing is
-- done then.
CREATE FUNCTION skald.release_started(
    of_scope text, of_key text, of_step text, of_fence integer, due_in interval, is_in_doubt boolean,
    looks_now integer, tries_now integer, new_answer jsonb, waits_on boolean, is_uncalled boolean, is_shown boolean, why text)
RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM skald.started s
      WHERE (s.scope, s.key, s.step) = (of_scope, of_key, of_step) AND s.fence = of_fence AND s.owner IS NOT NULL
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN CASE WHEN NOT EXISTS (SELECT FROM skald.started s WHERE (s.scope, s.key, s.step) = (of_scope, of_key, of_step)
                                        AND s.fence = of_fence AND s.owner IS NOT NULL) THEN false END;
    END IF;
    UPDATE skald.started s
       SET owner = NULL, due_at = clock_timestamp() + due_in, in_doubt = is_in_doubt, calls = s.calls - is_uncalled::integer, looks = looks_now,
           tries = tries_now, doubt_since = CASE WHEN is_in_doubt THEN coalesce(s.doubt_since, clock_timestamp()) END,
           unknown_at = CASE WHEN is_in_doubt AND NOT is_shown THEN coalesce(s.doubt_since, clock_timestamp()) + s.unknown_after END,
           until = CASE WHEN s.kind = 'wait' AND waits_on THEN clock_timestamp() + due_in ELSE s.until END,
           answer = CASE WHEN s.kind = 'wait' OR is_in_doubt THEN coalesce(s.answer, new_answer) END, error = coalesce(why, s.error),
           -- What is given back uncalled, to be taken again at once, was taken in vain, if for its end.
           ends_at = CASE WHEN s.kind = 'call' AND new_answer IS NOT NULL THEN clock_timestamp()
                          WHEN NOT is_uncalled OR due_in > interval '0' OR s.ends_at > clock_timestamp() THEN s.ends_at END
     WHERE (s.scope, s.key, s.step) = (of_scope, of_key, of_step);
    RETURN true;
END $$;

-- The claim for the second transaction of a started step: `retry` and held if the row is still the one with that fence; otherwise it has
-- been taken by somebody else, or has ended: `duplicate`.
CREATE FUNCTION skald.claim_started(of_scope text, of_key text, of_step text, of_fence integer)
RETURNS TABLE (ord integer, result text, attempts integer, held boolean, cause text, reason text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    made integer;
    held interval;
BEGIN
    SELECT i.attempts INTO made FROM skald.idempotency i
     WHERE (i.scope, i.key, i.step) = (of_scope, of_key, of_step) AND i.status IN ('started', 'unknown')
       FOR UPDATE;
    SELECT s.lease INTO held FROM skald.started s
     WHERE (s.scope, s.key, s.step) = (of_scope, of_key, of_step) AND s.fence = of_fence AND s.owner IS NOT NULL
       FOR UPDATE;
    IF made IS NULL OR NOT FOUND THEN
        RETURN QUERY SELECT 1, 'duplicate', 0, false, NULL, NULL;
        RETURN;
    END IF;
    PERFORM skald.limit_silence(held);
    -- What makes a step's own COMMIT fail (0003_open.sql).
    IF current_setting('skald.is_open', true) = 'on' THEN
        UPDATE skald.idempotency i SET updated_at = i.updated_at WHERE (i.scope, i.key, i.step) = (of_scope, of_key, of_step);
    END IF;
    RETURN QUERY SELECT 1, 'retry', made, true, NULL, NULL;
END $$;

-- Why a step has no row here, as far as this database knows.
CREATE FUNCTION skald.not_under_way(of_scope text, of_key text, of_step text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%s of saga %s ', of_step, of_key) || coalesce(
        (SELECT 'is ' || i.status || ' here: nothing of it is in doubt'
           FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (of_scope, of_key, of_step)),
        (SELECT CASE WHEN p.service IS NULL THEN 'does not exist: its saga has no step of that name'
                     WHEN p.service <> (SELECT o.name FROM skald.service o)
                     THEN format('belongs to %s: say it in the database of that service', p.service) END
           FROM skald.saga g
           LEFT JOIN LATERAL skald.itinerary_steps(g.itinerary) AS p ON p.step = regexp_replace(of_step, '\.compensate$', '')
          WHERE (g.scope, g.key) = (of_scope, of_key)),
        'is not under way here: it has not begun, or another service has it')
$$;

-- The steps of a saga that are under way, as its home knows it: of its own, which row; of others, what was reported last.
CREATE FUNCTION skald.under_way(of_scope text, of_key text) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(u.what ORDER BY u.step), '{}')
      FROM (SELECT s.step, format('%s here (fence %s, %s, %s)', s.step, s.fence, coalesce('owned by ' || s.owner, 'without an owner'),
                                  CASE WHEN s.kind = 'wait' THEN 'a wait' WHEN s.in_doubt THEN 'in doubt' ELSE 'not called now' END) AS what
              FROM skald.started s WHERE (s.scope, s.key) = (of_scope, of_key)
             UNION ALL
            SELECT p.step, format('%s at %s (%s since %s)', p.step, p.service, p.status, skald.instant(p.at))
              FROM skald.progress p WHERE (p.scope, p.key) = (of_scope, of_key) AND p.status IN ('started', 'unknown')
               AND p.service <> (SELECT o.name FROM skald.service o)) AS u
$$;

-- An answer from somewhere else to a call in doubt, or another than one that could not be recorded: the step goes on with it at once,
-- unless somebody owns it now; then it is taken up when that one gives it back. Returns NULL, or why not.
CREATE FUNCTION skald.resolve_step(of_scope text, of_key text, of_step text, answer jsonb, why text, by text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s skald.started;
BEGIN
    -- A process that can't read it could do nothing with the row.
    IF NOT coalesce(jsonb_typeof(answer) = 'object' AND (answer ? 'happened') <> (answer ? 'did_not_happen')
                    AND jsonb_typeof(coalesce(answer->'did_not_happen', '""')) = 'string', false) THEN
        RETURN format('the answer is {"happened": result} or {"did_not_happen": "why"}, and not %s', coalesce(answer::text, 'NULL'));
    END IF;
    SELECT * INTO s FROM skald.started t WHERE (t.scope, t.key, t.step) = (of_scope, of_key, of_step) FOR UPDATE;
    IF NOT FOUND THEN RETURN skald.not_under_way(of_scope, of_key, of_step); END IF;
    PERFORM skald.limit_silence(s.lease);
    IF s.kind <> 'call' THEN RETURN format('%s of saga %s waits for a signal, and makes no call', of_step, of_key); END IF;
    IF s.answer IS NOT NULL AND s.tries = 0 THEN RETURN format('%s of saga %s has an answer already: %s', of_step, of_key, s.answer); END IF;
    IF NOT s.in_doubt THEN
        RETURN format('nothing of %s of saga %s is in doubt: %s', of_step, of_key,
                      CASE WHEN s.calls = 0 THEN 'it has not been called yet' ELSE 'it is called again' END);
    END IF;
    -- A call that is running may still be carried out, whatever nobody has seen of it yet.
    IF answer ? 'did_not_happen' AND s.owner IS NOT NULL AND s.due_at > clock_timestamp() THEN
        RETURN format('%s of saga %s is being called, or asked about, by %s now, and may yet happen: say so again when that has ended',
                      of_step, of_key, s.owner);
    END IF;
    -- Whoever is still calling has lost it: how that ends is not asked any more, and could only contradict.
    UPDATE skald.started t SET answer = resolve_step.answer, ends_at = clock_timestamp(), due_at = clock_timestamp(), owner = NULL,
                               fence = t.fence + (t.owner IS NOT NULL)::integer
     WHERE (t.scope, t.key, t.step) = (of_scope, of_key, of_step);
    INSERT INTO skald.audit (actor, verb, scope, key, detail)
    VALUES (skald.actor(by), 'saga resolve', of_scope, of_key, jsonb_build_object('step', of_step, 'answer', answer, 'reason', why));
    RETURN NULL;
END $$;

-- A signal for a step that waits, or will wait. `kept`: it waits now and goes on, or the signal is there when it does; `duplicate`: the same
-- was there before; `mismatch`: another was; `late`: the step has ended; `no wait`: this service has it, and it never takes a signal.
CREATE FUNCTION skald.signal(of_scope text, of_key text, of_step text, with_body jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    print bytea := sha256(convert_to(with_body::text, 'UTF8'));
    was   skald.step_status;
    held  interval;
BEGIN
    IF EXISTS (SELECT FROM skald.hosted h WHERE h.step = of_step AND NOT h.takes_signals) THEN RETURN 'no wait'; END IF;
    -- Waits for a transaction that ends the step, or begins it again; and for one that begins it for the first time, whose record is not seen.
    SELECT i.status INTO was FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (of_scope, of_key, of_step) FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM skald.lock_wait(of_scope, of_key);
        SELECT i.status INTO was FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (of_scope, of_key, of_step);
    END IF;
    IF was IN ('completed', 'rejected', 'cancelled') THEN
        RETURN (SELECT CASE WHEN g.fingerprint = print THEN 'duplicate' ELSE 'late' END
                  FROM (SELECT) AS one LEFT JOIN skald.signal g ON (g.scope, g.key, g.step) = (of_scope, of_key, of_step));
    END IF;
    INSERT INTO skald.signal (scope, key, step, body, fingerprint) VALUES (of_scope, of_key, of_step, with_body, print)
    ON CONFLICT ON CONSTRAINT signal_once DO NOTHING;
    IF NOT FOUND THEN
        RETURN (SELECT CASE WHEN g.fingerprint = print THEN 'duplicate' ELSE 'mismatch' END
                  FROM skald.signal g WHERE (g.scope, g.key, g.step) = (of_scope, of_key, of_step));
    END IF;
    -- Who has it to record that nothing came has lost it: the signal was accepted.
    UPDATE skald.started s
       SET answer = coalesce(s.answer, jsonb_build_object('signal', with_body)), due_at = clock_timestamp(), owner = NULL,
           fence = s.fence + (s.owner IS NOT NULL)::integer
     WHERE (s.scope, s.key, s.step) = (of_scope, of_key, of_step) AND s.kind = 'wait'
    RETURNING s.lease INTO held;
    IF FOUND THEN PERFORM skald.limit_silence(held); END IF;
    RETURN 'kept';
END $$;

-- The same at the saga's home, for a step of any service: one elsewhere gets it as a message. Also `sent`, `no saga` and `no step`. The home
-- keeps what it has sent: the same again is sent again, should the first message be lost, and another is refused.
CREATE FUNCTION skald.send_signal(of_scope text, of_key text, of_step text, with_body jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   text := (SELECT o.name FROM skald.service o);
    print bytea := sha256(convert_to(with_body::text, 'UTF8'));
    s     skald.saga;
    there text;
    is_new boolean;
BEGIN
    SELECT * INTO s FROM skald.saga g WHERE (g.scope, g.key) = (of_scope, of_key);
    IF NOT FOUND THEN RETURN 'no saga'; END IF;
    IF with_body IS NULL THEN
        RAISE EXCEPTION 'a signal has a body: JSON, which may be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    there := (SELECT p.service FROM skald.itinerary_steps(s.itinerary) p WHERE p.step = of_step);
    IF there IS NULL THEN RETURN 'no step'; END IF;
    IF there = own THEN RETURN skald.signal(of_scope, of_key, of_step, with_body); END IF;
    IF s.finished_at IS NOT NULL OR EXISTS (SELECT FROM skald.progress p WHERE (p.scope, p.key, p.step) = (of_scope, of_key, of_step)
                                               AND p.status IN ('completed', 'rejected', 'cancelled')) THEN
        RETURN (SELECT CASE WHEN g.fingerprint = print THEN 'duplicate' ELSE 'late' END
                  FROM (SELECT) AS one LEFT JOIN skald.signal g ON (g.scope, g.key, g.step) = (of_scope, of_key, of_step));
    END IF;
    INSERT INTO skald.signal (scope, key, step, body, fingerprint) VALUES (of_scope, of_key, of_step, with_body, print)
    ON CONFLICT ON CONSTRAINT signal_once DO NOTHING;
    is_new := FOUND;
    IF NOT is_new AND NOT EXISTS (SELECT FROM skald.signal g WHERE (g.scope, g.key, g.step, g.fingerprint) = (of_scope, of_key, of_step, print)) THEN
        RETURN 'mismatch';
    END IF;
    PERFORM skald.enqueue(there, 'skald.signal', m.id, convert_to(jsonb_build_array(jsonb_build_object(
                              'scope', of_scope, 'key', of_key, 'step', of_step, 'body', with_body))::text, 'UTF8'),
                          jsonb_build_object('x-idempotency-key', m.id, 'x-saga-scope', of_scope, 'x-saga', s.definition),
                          of_scope, aggregatetype => s.definition, aggregateid => of_key)
       FROM (SELECT of_key || '.signal.' || of_step AS id) AS m;
    RETURN CASE WHEN is_new THEN 'sent' ELSE 'duplicate' END;
END $$;

-- Signals that came as messages: {scope, key, step, body}. The home could not know that a step never waits for one.
CREATE FUNCTION skald.take_signals(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    m record;
BEGIN
    -- Not by jsonb_to_recordset, which makes SQL's NULL of the body `null`.
    FOR m IN SELECT e->>'scope' AS scope, e->>'key' AS key, e->>'step' AS step, e->'body' AS body
               FROM jsonb_array_elements(members) AS e ORDER BY 1, 2, 3 LOOP
        IF skald.signal(m.scope, m.key, m.step, m.body) = 'no wait' THEN
            RAISE EXCEPTION 'a signal for % of saga %, which never waits for one', m.step, m.key USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
END $$;

-- Circuit breakers that are not closed, one for each dependency of a process: for people who look from outside (the console). The process says
-- so again every ten seconds; one that has died does not, and its rows are deleted an hour later, by whoever writes one.
CREATE TABLE skald.breaker (
    owner      text NOT NULL,  -- as in skald.started
    dependency text NOT NULL,
    state      text NOT NULL,
    why        text NOT NULL,
    ok         bigint NOT NULL,  -- calls, since the process started
    failed     bigint NOT NULL,
    slow       bigint NOT NULL,
    tries_at   timestamptz,      -- of an open one: when a call tries whether it is well again
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT breaker_once PRIMARY KEY (owner, dependency),
    CONSTRAINT state_is_known CHECK (state IN ('open', 'half-open'))
);

CREATE FUNCTION skald.note_breaker(b skald.breaker, tries_in interval) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF b.state = 'closed' THEN
        DELETE FROM skald.breaker o WHERE (o.owner, o.dependency) = (b.owner, b.dependency);
        RETURN;
    END IF;
    DELETE FROM skald.breaker o WHERE o.seen_at < clock_timestamp() - interval '1 hour';
    INSERT INTO skald.breaker AS o (owner, dependency, state, why, ok, failed, slow, tries_at)
    VALUES (b.owner, b.dependency, b.state, b.why, b.ok, b.failed, b.slow, clock_timestamp() + tries_in)
    ON CONFLICT ON CONSTRAINT breaker_once DO UPDATE
       SET state = excluded.state, why = excluded.why, ok = excluded.ok, failed = excluded.failed, slow = excluded.slow,
           tries_at = excluded.tries_at, seen_at = excluded.seen_at,
           changed_at = CASE WHEN o.state = excluded.state THEN o.changed_at ELSE excluded.changed_at END;
END $$;
