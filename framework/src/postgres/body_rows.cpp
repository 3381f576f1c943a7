#include "postgres/body_rows.hpp"

#include "core/text.hpp"
#include "ports/body_store.hpp"
#include "postgres/literal.hpp"
#include "skald_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <cstdint>

namespace skald::postgres {
namespace {

constexpr std::size_t part_bytes = 1024 * 1024;

// `run`: runs a statement of queries, and returns its rows.
template <class Run>
void keep_parts(core::body_reference const& what, std::string_view bytes, Run run)
{
    auto const rows = run(queries::keep_body{.fingerprint = postgres::bytes{what.fingerprint}, .size = what.size});
    if (!rows[0]["is_new"].template as<bool>()) return;
    std::int64_t part = 0;
    do {
        auto const next = bytes.substr(0, part_bytes);
        bytes.remove_prefix(next.size());
        run(queries::keep_body_part{
            .fingerprint = postgres::bytes{what.fingerprint}, .part = part++, .bytes = postgres::bytes{next}});
    } while (!bytes.empty());
}

}  // namespace

void keep_body(connection& c, core::body_reference const& what, std::string_view bytes)
{
    keep_parts(what, bytes, [&c](auto const& statement) { return c.run(execute(statement)); });
}

void keep_body(pqxx::transaction_base& tx, core::body_reference const& what, std::string_view bytes)
{
    keep_parts(what, bytes, [&tx](auto const& statement) { return run_in(tx, statement); });
}

bool hold_body(connection& c, core::body_reference const& what)
{
    return c.run(execute(queries::hold_body{.fingerprint = postgres::bytes{what.fingerprint}}))[0]["is_there"]
        .as<bool>();
}

std::string read_body(connection& c, core::body_reference const& what, std::string const& store)
{
    std::string body;
    body.reserve(what.size);
    for (std::int64_t part = 0;; ++part) {
        auto const rows =
            c.run(execute(queries::body_part{.fingerprint = postgres::bytes{what.fingerprint}, .part = part}));
        if (rows.empty() && part == 0) throw ports::missing_body(what, store);
        if (rows.empty()) break;
        body += core::from_hex(rows[0]["bytes"].c_str());
        if (body.size() > what.size) break;
    }
    ports::verify_body(what, body, store);
    return body;
}

}  // namespace skald::postgres
