#include "inbox/consumer.hpp"

#include "core/assert.hpp"
#include "core/failpoint.hpp"
#include "core/foreign_message.hpp"
#include "core/text.hpp"
#include "postgres/header_json.hpp"
#include "postgres/literal.hpp"
#include "skald_inbox_queries.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <utility>

namespace skald::inbox {

using postgres::execute;

namespace {

using namespace std::chrono_literals;

// In one statement. Lanes begin with the first of them while the next are read.
constexpr std::size_t rows_max = 64;

constexpr auto keep_every = 1s;

// While a snapshot is held, a search walks over what was taken since.
constexpr auto raise_every = 200ms;

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // the one form that libpqxx 6 and 7 share

class consumer::ear final : public pqxx::notification_receiver
{
public:
    explicit ear(pqxx::connection& c) : notification_receiver{c, "skald_inbox"} {}
    void operator()(std::string const&, int) override { has_heard = true; }

    bool has_heard{};
};

#pragma GCC diagnostic pop

consumer::consumer(postgres::connection_options const& options, ports::subscriber const& who, std::uint64_t generation,
                   std::vector<std::int64_t>& ended)
    : generation_{generation}, ended_{ended}, connection_{options}
{
    queues_.push_back({who.service, {}, transports::slow_start{who.prefetch}});
    std::vector<std::string> routing_keys, bound_queues;
    for (auto const& one : who.handlers) {
        queues_.push_back(
            {core::handler_destination(who.service, one.handler), one.handler, transports::slow_start{one.prefetch}});
        for (auto const& binding : one.bindings) {
            routing_keys.push_back(binding.routing_key);
            bound_queues.push_back(queues_.back().name);
        }
    }
    std::string prepared;
    for (auto const& [name, text] : inbox_queries::all)
        prepared += "PREPARE " + std::string{name} + " AS " + std::string{text} + ";\n";
    std::vector<std::string> names;
    for (auto const& one : queues_) names.push_back(one.name);
    declares_ =
        execute(inbox_queries::declare{.queues = names, .routing_keys = routing_keys, .bound_queues = bound_queues});
    connection_.run(prepared + execute("consumer_session") + declares_);
    SKALD_FAILPOINT_SOCKET(consumer, connection_.socket());
    ear_ = std::make_unique<ear>(connection_.raw());
    id_ = connection_
              .run(execute(inbox_queries::begin_consumer{.is_of = options.application_name, .queues = names}))[0]["id"]
              .as<std::int64_t>();
    ended_.push_back(id_);
    end_others();
    connection_.run(execute("free_orphans"));
}

consumer::~consumer() = default;

std::size_t consumer::queue::room()
{
    auto const window = start.window();
    return out < window ? std::min(rows_max, window - out) : 0;
}

int consumer::socket() const
{
    return connection_.socket();
}

bool consumer::has_heard()
{
    connection_.raw().get_notifs();
    if (!connection_.is_open()) throw pqxx::broken_connection{"the server ended the session"};
    return ear_->has_heard;
}

// A queue that had less than there was room for has nothing left, until somebody says so or it is time to look.
bool consumer::take(transports::mailbox& box)
{
    if (has_heard()) look_again();
    ear_->has_heard = false;
    std::vector<std::string> names;
    std::vector<std::int64_t> rooms, first_ids;
    for (auto& one : queues_) {
        auto const room = one.room();
        if (!one.may_have_more || room == 0) continue;
        names.push_back(one.name);
        rooms.push_back(static_cast<std::int64_t>(room));
        first_ids.push_back(one.first_id);
    }
    if (names.empty()) return false;
    auto const rows = connection_.run(
        execute(inbox_queries::take{.me = id_, .queues = names, .rooms = rooms, .first_ids = first_ids}));
    SKALD_FAILPOINT_IF(!rows.empty(), "consumer.delivered");
    std::map<std::string_view, std::int64_t> had;
    std::vector<ports::delivery> taken;
    for (auto const& row : rows) {
        taken.push_back(read(row));
        ++had[row["queue"].c_str()];
    }
    for (std::size_t i = 0; i < names.size(); ++i)
        queues_[index_of(names[i])].may_have_more = had[names[i]] == rooms[i];
    // RETURNING promises no order.
    std::ranges::sort(taken, {}, [](ports::delivery const& one) { return one.tag.number; });
    std::vector<ports::delivery_tag> back;
    for (auto const& one : box.deliver(std::move(taken))) back.push_back(one.tag);
    settle<inbox_queries::put_back>(back);
    return back.empty() && std::ranges::any_of(queues_, [](queue& one) { return one.may_have_more && one.room() > 0; });
}

void consumer::look_again()
{
    for (auto& one : queues_) one.may_have_more = true;
}

ports::delivery consumer::read(pqxx::row const& row)
{
    auto const id = row["id"].as<std::int64_t>();
    auto const from = index_of(row["queue"].c_str());
    ports::delivery made;
    made.tag = {generation_, static_cast<std::uint64_t>(id), static_cast<std::uint32_t>(from)};
    made.handler = queues_[from].handler;
    made.returns = row["returns"].as<int>();
    made.given_up = made.returns > delivery_limit;
    made.message.destination = queues_[from].name;
    made.message.id = row["message_id"].c_str();
    made.message.type = row["type"].c_str();
    made.message.content_type = row["content_type"].c_str();
    made.message.body = core::from_hex(row["body"].c_str());
    try {
        made.message.headers = postgres::read_fields(row["headers"].c_str());
        core::drop_headers_that_act(made.message);
    }
    catch (std::exception const& error) {
        made.problem = "its headers are no array of pairs of text: " + core::storable_text(error.what());
    }
    out_.emplace(id, from);
    ++queues_[from].out;
    queues_[from].start.delivered(made.tag.number, made.returns > 0);
    return made;
}

std::size_t consumer::index_of(std::string_view name) const
{
    auto const found = std::ranges::find(queues_, name, &queue::name);
    SKALD_ASSERT(found != queues_.end());  // take() asks for these alone
    return static_cast<std::size_t>(found - queues_.begin());
}

std::map<std::int64_t, std::size_t>::iterator consumer::find_out(ports::delivery_tag tag)
{
    return tag.generation == generation_ ? out_.find(static_cast<std::int64_t>(tag.number)) : out_.end();
}

template <class Statement>
void consumer::settle(std::vector<ports::delivery_tag> const& tags)
{
    std::vector<std::string> names;
    std::vector<std::int64_t> ids;
    for (auto const tag : tags) {
        auto const found = find_out(tag);
        if (found == out_.end()) continue;
        names.push_back(queues_[found->second].name);
        ids.push_back(found->first);
        --queues_[found->second].out;
        queues_[found->second].start.settled(tag.number);
        out_.erase(found);
    }
    if (!ids.empty()) connection_.run(execute(Statement{.queues = names, .ids = ids, .me = id_}));
}

void consumer::settle(transports::requests const& asked)
{
    settle<inbox_queries::delete_acked>(asked.acks);
    SKALD_FAILPOINT_IF(!asked.acks.empty(), "consumer.acked");
    settle<inbox_queries::put_back>(asked.requeues);
}

void consumer::keep()
{
    if (clock::now() >= next_raise_) {
        next_raise_ = clock::now() + raise_every;
        raise_first_ids();
    }
    if (clock::now() < next_keep_) return;
    next_keep_ = clock::now() + keep_every;
    if (connection_.run(declares_ + execute(inbox_queries::keep_consumer{.me = id_})).empty())
        throw pqxx::broken_connection{"this process was silent for so long that others have its messages now"};
    if (end_others()) connection_.run(execute("free_orphans"));
}

std::set<std::string> consumer::writers()
{
    std::set<std::string> now;
    for (auto const& row : connection_.run(execute("inbox_writers"))) now.insert(row["writer"].c_str());
    return now;
}

// As postgres/low_water.hpp does for the outbox, by ids: here no clock orders the rows.
void consumer::raise_first_ids()
{
    auto const now = writers();
    bool const all_ended = std::ranges::none_of(writers_, [&](auto const& one) { return now.contains(one); });
    if (!all_ended) return;
    std::vector<std::string> names;
    std::vector<std::int64_t> first_ids;
    for (auto const& one : queues_) {
        names.push_back(one.name);
        first_ids.push_back(one.first_id);
    }
    auto const found = connection_.run(
        execute(inbox_queries::first_ids{.last_id = last_id_, .queues = names, .first_ids = first_ids}));
    for (std::size_t i = 0; i < queues_.size(); ++i)
        queues_[i].first_id = found[static_cast<pqxx::result::size_type>(i)]["id"].as<std::int64_t>();
    last_id_ = connection_.run(execute("last_id"))[0]["id"].as<std::int64_t>();
    writers_ = writers();
}

// Whether there were any.
bool consumer::end_others()
{
    std::vector<std::int64_t> ended;
    for (auto const one : ended_)
        if (one != id_) ended.push_back(one);
    auto const gone =
        connection_.run(execute(inbox_queries::end_consumers{.me = id_, .ended = ended, .silence = silence_max}));
    ended_.assign(1, id_);
    return !gone.empty();
}

void consumer::close()
{
    connection_.run(execute(inbox_queries::end_consumer{.me = id_}));
    connection_.run(execute("free_orphans"));
    ended_.clear();
}

}  // namespace skald::inbox
