-- Steps that completed, and whose compensation found no record of them: what they did may still be in effect (docs/repair.md, "A step that
-- was not undone"). Of a step of this very database the compensation has put a record that counts no attempt in the place of the one that
-- is gone.
CREATE VIEW skald.not_undone AS
    SELECT DISTINCT s.scope::text COLLATE "C" AS scope, s.key::text COLLATE "C" AS key, k.step
      FROM (SELECT scope, key, step FROM skald.progress
             WHERE status = 'cancelled' AND error = 'nothing to undo' AND step LIKE '%.compensate'
             UNION ALL
            SELECT scope, key, step FROM skald.idempotency
             WHERE status = 'cancelled' AND error = 'nothing to undo' AND step LIKE '%.compensate' AND skald.is_ours(home)) AS c
      JOIN skald.saga s ON s.scope = c.scope AND s.key = c.key
     CROSS JOIN LATERAL skald.known_steps(s.scope, s.key) AS k
     WHERE k.step = replace(c.step, '.compensate', '') AND (k.status = 'completed' OR (k.status = 'cancelled' AND k.attempts = 0));
