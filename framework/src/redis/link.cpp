#include "redis/link.hpp"

#include "redis/entry_bytes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include <poll.h>
#include <sys/socket.h>

namespace skald::redis_detail {
namespace {

// Twice the largest entry.
constexpr std::size_t reply_bytes_max = 2 * entry_bytes_max;

void must_be_before(link::clock::time_point until)
{
    if (link::clock::now() >= until) throw link_error{"no answer in time"};
}

}  // namespace

link::link(endpoint const& where, clock::time_point until, bool has_tls)
    : context_{redisConnectNonBlock(where.host.c_str(), where.port)}
{
    if (!context_) throw std::bad_alloc{};
    if (context_->err != 0) fail();
    connect_fully(where, until);
    if (!has_tls) return;
    tls_.emplace(context_->fd, where.host);
    while (!tls_->shake_hands()) wait(tls_->events(), until);
}

void link::connect_fully(endpoint const& where, clock::time_point until)
{
    wait(POLLOUT, until);
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) throw link_error{describe(where) + ": " + std::generic_category().message(error)};
}

void link::fail() const
{
    throw link_error{context_->errstr};
}

void link::fail_to_read() const
{
    throw link_error{context_->reader->errstr};
}

void link::wait(short events, clock::time_point until)
{
    for (;;) {
        must_be_before(until);
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        pollfd watched{context_->fd, events, 0};
        int const ready = ::poll(&watched, 1, std::max(0, static_cast<int>(left.count())));
        if (ready > 0) return;
        if (ready < 0 && errno != EINTR) throw link_error{std::generic_category().message(errno)};
    }
}

void link::send(words const& command)
{
    std::vector<char const*> texts;
    std::vector<std::size_t> sizes;
    for (auto const& word : command) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    char* made = nullptr;
    auto const size = redisFormatCommandArgv(&made, static_cast<int>(texts.size()), texts.data(), sizes.data());
    if (size < 0) throw std::bad_alloc{};
    std::unique_ptr<char, decltype(&redisFreeCommand)> const formatted{made, &redisFreeCommand};
    unsent_.append(made, static_cast<std::size_t>(size));
}

// Sends some of what is unsent. False: the socket takes nothing now.
bool link::write_some()
{
    std::size_t count = 0;
    if (tls_) count = tls_->write(unsent_);
    else if (auto const sent = ::send(context_->fd, unsent_.data(), unsent_.size(), MSG_NOSIGNAL); sent >= 0)
        count = static_cast<std::size_t>(sent);
    else if (errno != EAGAIN && errno != EINTR) throw link_error{std::generic_category().message(errno)};
    unsent_.erase(0, count);
    return count > 0;
}

// Hands some of what has come to the reader of answers. 0: there is nothing now.
std::size_t link::read_some()
{
    std::array<char, 16 * 1024> part{};
    std::size_t count = 0;
    if (tls_) count = tls_->read(part.data(), part.size());
    else if (auto const got = ::recv(context_->fd, part.data(), part.size(), 0); got > 0)
        count = static_cast<std::size_t>(got);
    else if (got == 0) throw link_error{"Server closed the connection"};
    else if (errno != EAGAIN && errno != EINTR) throw link_error{std::generic_category().message(errno)};
    if (count > 0 && redisReaderFeed(context_->reader, part.data(), count) != REDIS_OK) fail_to_read();
    return count;
}

void link::flush(clock::time_point until)
{
    while (!unsent_.empty()) {
        if (!write_some()) wait(events(POLLOUT), until);
        else must_be_before(until);
    }
}

void link::tell(words const& command)
{
    send(command);
    ++told_;
    while (!unsent_.empty() && write_some()) {}
}

reply link::receive(clock::time_point until)
{
    flush(until);
    for (; told_ > 0; --told_) {
        auto const answer = read_one(until);
        if (answer.error().starts_with("READONLY")) throw link_error{std::string{answer.error()}};
        if (answer.error().empty()) continue;
        ++refused_;
        refusal_ = answer.error();
    }
    return read_one(until);
}

bool link::is_quiet() const
{
    pollfd asked{context_->fd, POLLIN | POLLRDHUP, 0};
    return ::poll(&asked, 1, 0) <= 0 || (told_ > 0 && asked.revents == POLLIN);
}

// Also over TLS, where bytes may come for as long as the server likes.
reply link::read_one(clock::time_point until)
{
    for (std::size_t count = 0;;) {
        void* made = nullptr;
        if (redisReaderGetReply(context_->reader, &made) != REDIS_OK) fail_to_read();
        if (made != nullptr) return reply{static_cast<redisReply*>(made)};
        if (count > reply_bytes_max) throw link_error{"an answer that is too large"};
        if (tls_) must_be_before(until);
        else wait(POLLIN, until);
        auto const more = read_some();
        count += more;
        if (more == 0 && tls_) wait(tls_->events(), until);
    }
}

namespace {

endpoint ask_sentinel(endpoint const& sentinel, std::string const& name, link::clock::time_point until)
{
    link to{sentinel, until};
    auto const found = to.ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}, until);
    if (!found.error().empty()) throw link_error{std::string{found.error()}};
    auto const port = found.text(1);
    endpoint master{std::string{found.text(0)}, 0};
    auto const [end, error] = std::from_chars(port.data(), port.data() + port.size(), master.port);
    if (master.host.empty() || error != std::errc{}) throw link_error{"the sentinel knows no '" + name + '\''};
    return master;
}

// The sentinels have half of the time: a dead one must not use up what the others need.
endpoint find_master(address const& where, link::clock::time_point until)
{
    auto const share = (until - link::clock::now()) / static_cast<int>(2 * where.endpoints.size());
    std::string why;
    for (auto const& sentinel : where.endpoints) try {
            return ask_sentinel(sentinel, where.master, link::clock::now() + share);
        }
        catch (link_error const& error) {
            why += (why.empty() ? "" : "; ") + describe(sentinel) + ": " + error.what();
        }
    throw link_error{why};
}

void must(reply const& answer)
{
    if (!answer.error().empty()) throw link_error{std::string{answer.error()}};
}

// Some answer with what they were sent, and that is the password.
void must_let_in(reply const& answer)
{
    auto const error = answer.error();
    if (!error.empty()) throw link_error{"AUTH was refused: " + std::string{error.substr(0, error.find(' '))}};
}

// ROLE may be forbidden, or not there, which a proxy says in its own words. Any other error will meet what follows.
bool must_do_without(reply const& role)
{
    auto const error = role.error();
    return error.starts_with("NOPERM") ||
           (error.starts_with("ERR ") && !error.starts_with("ERR max number of clients"));
}

}  // namespace

std::unique_ptr<link> connect(address const& where, link::clock::time_point until)
{
    auto made = std::make_unique<link>(where.master.empty() ? where.endpoints.front() : find_master(where, until),
                                       until, where.has_tls);
    if (!where.password.empty())
        must_let_in(where.user.empty() ? made->ask({"AUTH", where.password}, until)
                                       : made->ask({"AUTH", where.user, where.password}, until));
    if (where.database != 0) must(made->ask({"SELECT", std::to_string(where.database)}, until));
    // A server that is stopped accepts connections all the same, and one that sentinels have demoted may still be
    // named.
    auto const role = made->ask({"ROLE"}, until);
    if (!must_do_without(role)) must(role);
    if (role.size() > 0 && role.text(0) != "master") throw link_error{"the server is a replica"};
    return made;
}

}  // namespace skald::redis_detail
