#include "testing/service_database.hpp"

#include "postgres/literal.hpp"
#include "skald_testing_queries.hpp"
#include "testing/row_text.hpp"

#include <skald/errors.hpp>

#include <pqxx/pqxx>

#include <algorithm>

namespace skald::testing::inner {
namespace {

using namespace std::chrono_literals;

// What is locked in a test stays locked: everything is on one thread.
constexpr auto lock_timeout = 250ms;

// Statements of the kit's have at most one parameter.
std::string with_parameter(std::string_view query, std::string const& literal)
{
    std::string text{query};
    for (auto at = text.find("$1"); at != std::string::npos; at = text.find("$1", at + literal.size()))
        text.replace(at, 2, literal);
    return text;
}

}  // namespace

service_database::service_database(server& on, std::string service, std::vector<postgres::migration> const& migrations,
                                   std::string const& given)
    : server_{on}, service_{std::move(service)}, original_{on.create()}
{
    auto const url = on.url_of(original_);
    postgres::migrate(url, service_, migrations);
    try {
        pqxx::connection c{url};
        if (!given.empty()) pqxx::nontransaction{c}.exec(given);
        pqxx::nontransaction{c}.exec(std::string{testing_queries::remember});
    }
    catch (pqxx::failure const& error) {
        throw configuration_error{"given(\"" + service_ + "\", ...): " + error.what()};
    }
    clone();
}

void service_database::clone()
{
    session_.reset();
    if (!name_.empty()) server_.drop(name_);
    name_ = server_.create(original_);
    auto& c = session();
    shape_ = c.run(std::string{testing_queries::shape})[0][0].c_str();
    every_table_ = c.run(std::string{testing_queries::every_table})[0][0].c_str();
    try {
        c.run("BEGIN; " + std::string{testing_queries::may_rewind} + "; COMMIT");
        may_rewind_ = true;
    }
    catch (pqxx::insufficient_privilege const&) {
        c.run("ROLLBACK");
    }
}

postgres::connection_options service_database::options() const
{
    postgres::connection_options o;
    o.url = url();
    o.application_name = "skald/testing";
    o.lock_timeout = lock_timeout;
    o.waits_for_disk = false;
    o.server = server_.state();
    return o;
}

postgres::connection& service_database::session()
{
    if (!session_ || !session_->is_open()) session_ = std::make_unique<postgres::connection>(options());
    return *session_;
}

bool service_database::rewind()
{
    if (may_rewind_) {
        try {
            auto const back = with_parameter(testing_queries::rewind, postgres::literal(shape_));
            if (session().run(back)[0][0].as<bool>()) return false;
        }
        catch (pqxx::sql_error const& error) {
            throw std::runtime_error{"the database of " + service_ + " can't be brought back to its beginning; does a "
                                     "step leave a transaction open on a connection of its own? " + error.what()};
        }
    }
    clone();
    return true;
}

rows service_database::ask(std::string const& sql)
{
    rows all;
    for (auto const& row : session().run(sql)) all.push_back(text_of(row));
    return all;
}

std::vector<std::pair<std::string, std::string>> service_database::pairs(std::string_view query)
{
    std::vector<std::pair<std::string, std::string>> all;
    for (auto const& row : session().run(std::string{query})) all.emplace_back(row[0].c_str(), row[1].c_str());
    return all;
}

std::vector<std::pair<std::string, std::string>> service_database::every_row()
{
    return every_table_.empty() ? std::vector<std::pair<std::string, std::string>>{}
                                : pairs(every_table_ + " ORDER BY effect, line");
}

std::optional<std::chrono::milliseconds> service_database::next_due()
{
    auto const rows = session().run(std::string{testing_queries::next_due});
    if (rows[0][0].is_null()) return {};
    return std::max(0ms, std::chrono::milliseconds{rows[0][0].as<std::int64_t>()});
}

void service_database::advance(std::chrono::milliseconds time)
{
    session().run(with_parameter(testing_queries::advance, postgres::literal(std::int64_t{time.count()})));
}

}  // namespace skald::testing::inner
