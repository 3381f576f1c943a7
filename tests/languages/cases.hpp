// Random messages for a step of the service `payments`, most of them right, and ways in which a delivery goes.
#pragma once

#include "core/envelope.hpp"
#include "ports/store.hpp"
#include "runtime/registry.hpp"
#include "runtime/step_result.hpp"
#include "unit/seeded.hpp"

#include <nlohmann/json.hpp>

#include <pqxx/pqxx>

#include <optional>
#include <string>

namespace skald::test {

inline constexpr char const* this_service = "payments";

/// How many cases: as many as PARTICIPANT_CASES says, or that many.
int cases_wanted(int many);

class random_cases
{
public:
    explicit random_cases(std::uint_fast32_t seed) : random_{seed} {}

    seeded& random() { return random_; }

    /// Whether something that happens once in `times` happens.
    bool one_in(std::size_t times) { return random_.number(1, times) == 1; }

    template <class... Values>
    std::string any_of(Values... values)
    {
        std::array<char const*, sizeof...(values)> const all{values...};
        return all[random_.number(0, all.size() - 1)];
    }

    core::itinerary itinerary();
    core::envelope envelope();

    /// The message of an envelope; one in four has something wrong with it, or odd.
    core::message message(core::envelope const& e);

    /// A time around the year 2026, as text.
    std::string time();

    std::string reason();

    /// What the service says of the step: `{"kind": ..., "version": ...}`; nothing if it does not have it.
    std::optional<nlohmann::json> hosted(core::envelope const& e);

    /// What a claim of this step may give.
    ports::claim_answer claim(core::envelope const& e);

    /// How a run of this step may end; null: it did not run.
    nlohmann::json ended(core::envelope const& e);

private:
    void spoil(core::message& m);

    seeded random_;
};

/// The registry of a service that has what hosted() said of the step.
runtime::registry registry_of(core::envelope const& e, std::optional<nlohmann::json> const& hosted,
                              std::chrono::milliseconds deploy_wait);

/// ended() for the C++.
std::optional<runtime::step_result> result_of(nlohmann::json const& ended);

nlohmann::json headers_of(core::header_list const& headers);

/// A fault in one of the SQL functions, for as long as this lives: `from` in its text is `to`.
class planted_fault
{
public:
    planted_fault(pqxx::connection& c, std::string const& function, std::string const& from, std::string const& to);
    ~planted_fault();
    planted_fault(planted_fault const&) = delete;
    planted_fault& operator=(planted_fault const&) = delete;

private:
    pqxx::connection& c_;
    std::string was_;
};

struct fault
{
    char const* function;
    char const* from;
    char const* to;
};

}  // namespace skald::test
