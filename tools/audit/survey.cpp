#include "audit/survey.hpp"

#include "audit/cursor.hpp"
#include "audit/database.hpp"
#include "core/instant.hpp"
#include "postgres/literal.hpp"
#include "skald_audit_queries.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_set>

namespace skald::audit {
namespace {

using key_order = std::tuple<std::string, std::string>;

/// What one database says, one row after the other.
class source
{
public:
    source(service_database const& from, std::chrono::seconds grace)
        : service_{from.service}, connection_{options_for(from.url)}, rows_{connection_, "audit_facts"}
    {
        check_owner(connection_, service_);
        connection_.run(std::string{queries::audit_begin});
        connection_.run(postgres::filled_in(queries::audit_facts{.grace_seconds = grace.count()}));
        advance();
    }

    /// By its server's clock.
    core::instant now()
    {
        return core::parse_instant(connection_.run(std::string{queries::audit_clock})[0]["at"].c_str()).value();
    }

    bool is_over() const { return is_over_; }
    key_order const& key() const { return key_; }

    /// Adds all rows of its present key.
    void add_to(key_facts& facts, surveyed& counted)
    {
        for (auto const key = key_; !is_over_ && key_ == key; advance()) {
            auto const row = rows_.row();
            std::string_view const what = row["what"].c_str();
            counted.sagas += what == "saga";
            counted.records += what == "record";
            // `busy` and `not_undone` are views of other rows, and have no time of their own.
            auto const at = row["at"].is_null() ? std::string{} : std::string{row["at"].c_str()};
            add_fact(facts, service_, what, row["fact"].c_str(), at, row["is_old"].as<bool>());
        }
    }

private:
    void advance()
    {
        is_over_ = !rows_.advance();
        if (is_over_) return;
        key_order next{rows_.row()["scope"].c_str(), rows_.row()["key"].c_str()};
        if (next < key_) throw std::logic_error{service_ + " does not say its keys in their order"};
        key_ = std::move(next);
    }

    std::string service_;
    postgres::connection connection_;
    cursor rows_;
    key_order key_;
    bool is_over_{};
};

std::unique_ptr<source> look_into(service_database const& one, std::chrono::seconds grace)
try {
    return std::make_unique<source>(one, grace);
}
catch (configuration_error const&) {
    throw;
}
catch (std::exception const& error) {
    throw std::runtime_error{fmt::format("the database of {}: {}", one.service, error.what())};
}

template <class See>
surveyed look(survey_options const& options, See const& see)
{
    surroundings around;
    around.file = options.file;
    for (auto const& one : options.databases) around.services.push_back(one.service);
    std::vector<std::unique_ptr<source>> sources;
    for (auto const& one : options.databases) sources.push_back(look_into(one, options.grace));
    if (!sources.empty()) around.day_ago = core::write_instant(sources.front()->now() - std::chrono::days{1});
    // Asked after the databases: a message that has left an outbox for a queue since is seen there.
    if (options.queues) around.queues = options.queues();

    surveyed counted;
    for (;;) {
        source const* least = nullptr;
        for (auto const& one : sources)
            if (!one->is_over() && (least == nullptr || one->key() < least->key())) least = one.get();
        if (least == nullptr) return counted;
        key_facts facts;
        std::tie(facts.scope, facts.key) = least->key();
        key_order const key{facts.scope, facts.key};
        for (auto const& one : sources)
            if (!one->is_over() && one->key() == key) one->add_to(facts, counted);
        ++counted.keys;
        for (auto& one : examine(facts, around)) see(std::move(one), facts.latest);
    }
}

// Of a finding that is the same in every way, its saga unchanged.
std::size_t identity(finding const& one, std::string const& latest)
{
    return std::hash<std::string>{}(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", one.kind, one.service, one.scope, one.key,
                                                one.what, one.means, one.key.empty() ? "" : latest));
}

}  // namespace

service_database const& find_service(std::vector<service_database> const& all, std::string const& service,
                                     std::string const& file)
{
    auto const one = std::ranges::find(all, service, &service_database::service);
    if (one == all.end()) throw configuration_error{fmt::format("--databases {} has no line for {}", file, service)};
    return *one;
}

surveyed survey(survey_options const& options, findings& found)
{
    std::unordered_set<std::size_t> seen;
    auto counted =
        look(options, [&](finding const& one, std::string const& latest) { seen.insert(identity(one, latest)); });
    if (seen.empty()) return counted;
    if (options.wait) options.wait();
    return look(options, [&](finding one, std::string const& latest) {
        if (seen.erase(identity(one, latest)) > 0) found.add(std::move(one));
    });
}

}  // namespace skald::audit
