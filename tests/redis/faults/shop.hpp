// The process that this program starts twice: the entry of a service behind Skald's server, without the rest of its
// worker.
#pragma once

namespace skald::test {

/// Serves until SIGTERM, with DATABASE_URL, SKALD_GUARD and SKALD_REDIS_URL. POST /guarded and /repeatable leave an
/// effect with a mark of its own, which is their response.
int serve();

}  // namespace skald::test
