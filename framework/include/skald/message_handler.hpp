// A handler of messages that belong to no saga, under the same guard as a step: each message takes effect once, in one
// transaction with the record of its key and with what it sends.
//
//     struct payment_created { std::string id; std::int64_t cents{}; };
//
//     books.on<payment_created>("payment-created",
//                               [](skald::message_context& ctx, payment_created const& p) {
//                                   ctx.sql("INSERT INTO entry VALUES ($1, $2)", p.id, p.cents);
//                               },
//                               {.bind = {{"payment.created", "shop"}}, .key = skald::message_key::members({"/id"})});
//
// See docs/messages.md.
#pragma once

#include <skald/detail/hosted_step.hpp>
#include <skald/message.hpp>
#include <skald/outcome.hpp>
#include <skald/step_context.hpp>

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace skald {

/// What a handler knows of its message, and the transaction that it runs in. Lifetime, threads, transaction: as for
/// transaction_context. A handler may start a saga (skald::start), signal one (skald::signal_saga) and publish.
class message_context final : public step_context
{
public:
    /// Created by Skald.
    message_context(detail::unit_of_work& unit, std::string scope, std::string message_key, std::string derived_key,
                    int attempt, trace_context trace, received_message const& message)
        : step_context{unit,    std::move(scope), std::move(message_key), std::move(derived_key),
                       attempt, std::move(trace)},
          message_{message}
    {}

    /// The message's own key within scope(); key() is that with the handler's name.
    std::string const& message_key() const { return saga_key(); }

    /// As it was received.
    received_message const& message() const { return message_; }

    /// Replies to the message when this transaction commits. The reply is stored: whoever sends the same message again
    /// gets the same bytes. It goes to the queue that the message names as its `reply_to`, with its `correlation_id`
    /// (or its `message_id`, if it has none). If it names no queue, or that queue is gone, it is only stored.
    /// More than 1 MiB goes by a reference, to whoever shares the store of large bodies (docs/bodies.md); without one,
    /// and beyond SKALD_BODY_MAX, the transaction fails.
    /// Throws: std::logic_error the second time.
    void reply(nlohmann::json const& body)
    {
        if (reply_) throw std::logic_error{"a message gets one reply, and this one has it already"};
        reply_ = body.dump();
    }

    /// For Skald.
    std::optional<std::string> const& replied() const { return reply_; }

private:
    received_message const& message_;
    std::optional<std::string> reply_;
};

namespace detail {

template <class Body, class Handler>
concept handles = std::invocable<Handler const&, message_context&, Body&>;

template <class Body, class Handler>
class handler_run final : public step_run
{
public:
    handler_run(Handler const& handler, std::string_view body) : handler_{handler}, body_(read_data<Body>(body, words))
    {}

    outcome execute(step_context& ctx) override
    {
        // Skald runs what service::on() hosts in a message_context, and nothing else.
        auto& of_message = static_cast<message_context&>(ctx);
        if constexpr (std::is_void_v<std::invoke_result_t<Handler const&, message_context&, Body&>>) {
            handler_(of_message, body_);
            return done();
        }
        else {
            return handler_(of_message, body_);
        }
    }
    void compensate(step_context&) override {}  // nothing asks for it
    std::string data() override { return {}; }  // there is no next step
    void const* object() const override { return &body_; }

private:
    static constexpr reading words{"the payload", "the handler's type"};

    Handler const& handler_;
    Body body_;
};

template <class Body, class Handler>
class typed_handler final : public hosted_step
{
public:
    explicit typed_handler(Handler handler) : handler_{std::move(handler)} {}

    std::unique_ptr<step_run> read(std::string_view body) const override
    {
        return std::make_unique<handler_run<Body, Handler>>(handler_, body);
    }
    bool does_batches() const override { return false; }
    batch_outcome execute_batch(std::span<member_run const>) const override { return batch_outcome::one_by_one; }

private:
    Handler handler_;
};

}  // namespace detail
}  // namespace skald
