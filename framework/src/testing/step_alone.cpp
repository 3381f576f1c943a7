#include "testing/step_alone_implementation.hpp"

#include "core/fingerprint.hpp"
#include "testing/service_database.hpp"

#include <pqxx/pqxx>

#include <array>
#include <atomic>
#include <stdexcept>
#include <utility>

namespace skald::testing {

step_alone::step_alone(std::unique_ptr<implementation> made) : implementation_{std::move(made)}
{
    // Uses a key, like a step's transaction: so the store can tell at the end whether it is still the same transaction.
    // One of its own, since another one may be open.
    static std::atomic<int> count{0};
    ports::claim_item item;
    item.saga.key = "alone-" + std::to_string(++count);
    item.step = "alone";
    item.fingerprint = core::fingerprint_of("alone");
    if (!implementation_->store.begin(std::array{item}, {}).front().held)
        throw std::logic_error{"the key " + item.saga.key + " is somebody else's"};
    implementation_->began = implementation_->transaction();
}

step_alone::~step_alone() = default;
step_alone::step_alone(step_alone&&) noexcept = default;

std::unique_ptr<call_context> step_alone::call_context_for(step_circumstances const& around, bool back)
{
    class nobody final : public skald::detail::call_owner
    {
        void heartbeat(std::optional<nlohmann::json> const&) override {}
        bool is_stopped() const noexcept override { return false; }
    };
    static nobody owner;
    core::derived_key const key{around.key, around.step, back ? core::direction::back : core::direction::forward};
    return std::make_unique<call_context>(owner, around.scope, around.key, key.text(), around.attempt, std::nullopt,
                                          trace_context{});
}

std::unique_ptr<step_context> step_alone::context(step_circumstances const& around, bool back)
{
    core::derived_key const key{around.key, around.step, back ? core::direction::back : core::direction::forward};
    implementation_->tx().exec(std::string{testing_queries::mark});
    return std::make_unique<step_context>(*implementation_, around.scope, around.key, key.text(), around.attempt);
}

// Only a step that is done leaves something.
void step_alone::finish(step_context& ctx, bool is_done)
{
    check_transaction();
    if (!is_done) {
        implementation_->tx().exec(std::string{testing_queries::back_to_mark});
        return;
    }
    for (auto const& sent : ctx.published()) {
        message_view view;
        view.destination = sent.destination;
        view.type = sent.type;
        view.body = sent.body;
        view.id = ctx.key() + '.' + std::to_string(implementation_->published.size() + 1) + '.' + sent.type;
        view.name = view.id.substr(view.id.rfind(':') + 1);
        implementation_->published.push_back(std::move(view));
    }
}

void step_alone::check_transaction()
{
    std::string now;
    try {
        now = implementation_->transaction();
    }
    catch (pqxx::failure const& error) {
        throw std::logic_error{
            "the step went on after an SQL error that it caught; its transaction can't be committed. "
            "Let the exception pass, or use a SAVEPOINT: " +
            std::string{error.what()}};
    }
    if (now != implementation_->began)
        throw std::logic_error{"the step ran COMMIT or ROLLBACK itself: Skald begins and ends the transaction"};
}

rows step_alone::ask(std::string const& sql)
{
    rows all;
    for (auto const& row : implementation_->tx().exec(sql)) all.push_back(inner::text_of(row));
    return all;
}

std::vector<message_view> const& step_alone::published() const
{
    return implementation_->published;
}

}  // namespace skald::testing
