#include "s3/s3_bodies.hpp"

#include "core/text.hpp"
#include "core/uuid.hpp"
#include "ports/fault.hpp"
#include "s3/listing.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace skald::s3_detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t hex_digits = 64;
// Younger than this, a body or a mark is relied on as it is. A purge takes nothing before half a day.
constexpr std::chrono::seconds fresh = 1h;
// How often what was listed may be gone when it is asked for, before it counts as missing: each time it was renewed.
constexpr int tries_max = 5;

// What is written in a query: only `/` of our names, and what may be in a token.
std::string in_query(std::string_view text)
{
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string written;
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (plain.find(c) != std::string_view::npos) written += c;
        else written.append({'%', digits[byte >> 4U], digits[byte & 15U]});
    }
    return written;
}

[[noreturn]] void fail(std::string const& doing, std::string const& store, response const& got)
{
    throw ports::fault{ports::fault_kind::unavailable, doing + " in " + store + ": it answers " + got.in_words()};
}

std::string unique()
{
    return core::make_uuid_v7();
}

bool is_hex(std::string_view text)
{
    return text.size() == hex_digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Lists what begins like this, a page at a time; `after`: what comes behind that name.
class pages
{
public:
    pages(client& from, std::string store, std::string const& begins_with, std::string const& after = {})
        : from_{from}, store_{std::move(store)}, prefix_{from.where().prefix + begins_with},
          after_{after.empty() ? after : from.where().prefix + after}
    {}

    /// Nothing: that was all. Names are without the bucket's prefix.
    std::optional<listing> next()
    try {
        if (is_over_) return std::nullopt;
        auto query = "list-type=2&prefix=" + in_query(prefix_);
        if (!next_.empty()) query = "continuation-token=" + in_query(next_) + '&' + query;
        else if (!after_.empty()) query += "&start-after=" + in_query(after_);
        auto const got = from_.send({.method = "GET", .query = std::move(query), .answer_max = answer_max});
        if (!got.is_good()) fail("can't list bodies", store_, got);
        if (got.now == std::chrono::sys_seconds{}) throw std::runtime_error{"its answer has no date"};
        now_ = got.now;
        auto read = parse_listing(got.body);
        next_ = read.next;
        is_over_ = next_.empty();
        for (auto& one : read.objects) one.name.erase(0, from_.where().prefix.size());
        return read;
    }
    catch (std::runtime_error const& error) {
        if (dynamic_cast<ports::fault const*>(&error) != nullptr) throw;
        throw ports::fault{ports::fault_kind::unavailable, store_ + ": " + error.what()};
    }

    std::chrono::seconds age_of(listed_object const& one) const { return now_ - one.changed; }

private:
    static constexpr std::size_t answer_max = 4'194'304;  // of 1,000 names

    client& from_;
    std::string store_;
    std::string prefix_;
    std::string after_;
    std::string next_;
    bool is_over_{};
    std::chrono::sys_seconds now_{};
};

}  // namespace

struct s3_bodies::object
{
    std::string name;  // after HEX/
    std::chrono::seconds age;
    std::uint64_t size;

    bool is_body() const { return name.starts_with("body."); }
};

/// All of one body.
struct s3_bodies::known
{
    std::string hex;
    std::vector<object> all;

    /// The youngest, of the right size if one is given: another one is not ours. Null: none.
    object const* body(std::optional<std::uint64_t> size = {}) const
    {
        object const* found = nullptr;
        for (auto const& one : all)
            if (one.is_body() && (!size || one.size == *size) && (found == nullptr || one.age < found->age))
                found = &one;
        return found;
    }
    std::string path(object const& of) const { return hex + '/' + of.name; }
};

s3_bodies::s3_bodies(client_options options, std::string holder)
    : client_{std::move(options)}, holder_{std::move(holder)}
{}

std::string s3_bodies::name() const
{
    auto const& at = client_.where();
    auto text = "s3:" + at.server + '/' + at.bucket + '/' + at.prefix;
    text.pop_back();
    return text;
}

std::string s3_bodies::refusal()
{
    auto const got =
        client_.send({.method = "GET", .query = "list-type=2&max-keys=1&prefix=" + in_query(client_.where().prefix)});
    return got.is_good() || got.status >= 500 ? std::string{} : got.in_words();
}

s3_bodies::known s3_bodies::look(std::string const& hex)
{
    known found{hex, {}};
    pages from{client_, name(), hex + '/'};
    while (auto page = from.next())
        for (auto const& one : page->objects)
            if (one.name.size() > hex.size() + 1)
                found.all.push_back({one.name.substr(hex.size() + 1), from.age_of(one), one.size});
    return found;
}

void s3_bodies::put(std::string const& name, std::string_view body, std::string const& sha256,
                    std::string const& copy_of)
{
    auto const got =
        client_.send({.method = "PUT", .name = name, .body = body, .body_sha256 = sha256, .copy_of = copy_of});
    // A copy may fail after its 200 has begun: then that says so.
    if (!got.is_good() || got.body.find("<Error>") != std::string::npos) fail("can't write " + name, this->name(), got);
}

void s3_bodies::remove(std::string const& name)
{
    auto const got = client_.send({.method = "DELETE", .name = name});
    if (!got.is_good() && !got.is_missing()) fail("can't delete " + name, this->name(), got);
}

bool s3_bodies::is_our_mark(object const& one) const
{
    return one.name.starts_with("held." + holder_ + '.');
}

// The new one first: at no time is there none.
void s3_bodies::mark(known const& at)
{
    auto const is_young = [&](object const& one) { return is_our_mark(one) && one.age < fresh; };
    if (std::ranges::any_of(at.all, is_young)) return;
    put(at.hex + "/held." + holder_ + '.' + unique(), {}, {}, {});
    for (auto const& one : at.all)
        if (is_our_mark(one)) remove(at.path(one));
}

// Makes an old one young, under another name. False if it went meanwhile.
bool s3_bodies::renew(known const& at)
{
    auto const* const youngest = at.body();
    if (youngest->age < fresh) return true;
    auto const got =
        client_.send({.method = "PUT", .name = at.hex + "/body." + unique(), .copy_of = at.path(*youngest)});
    if (got.is_missing()) return false;
    if (!got.is_good() || got.body.find("<Error>") != std::string::npos) fail("can't copy a body", name(), got);
    for (auto const& one : at.all)
        if (one.is_body()) remove(at.path(one));
    return true;
}

bool s3_bodies::hold(core::body_reference const& what)
{
    auto const hex = core::to_hex(what.fingerprint);
    for (int tries = 0; tries < tries_max; ++tries) {
        auto at = look(hex);
        // One of another size is not what it is called: as if it were not there.
        std::erase_if(at.all, [&](object const& one) { return one.is_body() && one.size != what.size; });
        if (at.body() == nullptr) return false;
        if (!renew(at)) continue;
        mark(at);
        return true;
    }
    return false;
}

void s3_bodies::keep(core::body_reference const& what, std::string_view body)
{
    if (hold(what)) return;
    auto const hex = core::to_hex(what.fingerprint);
    put(hex + "/body." + unique(), body, hex, {});
    mark(look(hex));
}

std::string s3_bodies::read(core::body_reference const& what)
{
    auto const hex = core::to_hex(what.fingerprint);
    for (int tries = 0; tries < tries_max; ++tries) {
        auto const at = look(hex);
        auto const* youngest = at.body(what.size);
        if (youngest == nullptr) youngest = at.body();
        if (youngest == nullptr) break;
        if (youngest->size > core::kept_body_bytes_max) ports::verify_body(what, {}, name());
        auto got = client_.send({.method = "GET",
                                 .name = at.path(*youngest),
                                 .answer_max = std::max(youngest->size, std::uint64_t{1'048'576})});
        if (got.is_missing()) continue;
        if (!got.is_good()) fail("can't read " + what.name(), name(), got);
        ports::verify_body(what, got.body, name());
        return std::move(got.body);
    }
    throw ports::missing_body(what, name());
}

std::size_t s3_bodies::purge(std::chrono::seconds older_than, std::size_t most,
                             std::function<bool(core::body_reference const&)> const& is_in_use, ports::purge_place& at)
{
    std::size_t gone = 0;
    known now;
    // True: that is enough for this time.
    auto const finish = [&] {
        bool const is_ours = is_hex(now.hex);
        if (is_ours) {
            if (purge_one(now, older_than, is_in_use)) ++gone;
            at.after = now.hex;
        }
        now.all.clear();
        return is_ours && (gone >= most || (at.is_over && at.is_over()));
    };
    // All of one body are beside each other: names come sorted. `0` comes behind `/`.
    pages from{client_, name(), {}, at.after.empty() ? at.after : at.after + '0'};
    while (auto page = from.next()) {
        for (auto const& one : page->objects) {
            auto const hex = one.name.substr(0, one.name.find('/'));
            if (hex != now.hex) {
                if (finish()) return gone;
                now.hex = hex;
            }
            if (one.name.size() > hex.size() + 1)
                now.all.push_back({one.name.substr(hex.size() + 1), from.age_of(one), one.size});
        }
    }
    finish();
    at.after.clear();
    return gone;
}

// Whatever is deleted here, is by a name that nobody has relied on for half of that time.
bool s3_bodies::purge_one(known const& at, std::chrono::seconds older_than,
                          std::function<bool(core::body_reference const&)> const& is_in_use)
{
    auto const* const youngest = at.body();
    if (youngest != nullptr) {
        if (youngest->age < older_than / 2) return false;
        core::body_reference const what{core::from_hex(at.hex), youngest->size};
        if (is_in_use(what)) {
            hold(what);
            return false;
        }
    }
    bool is_held = false;
    for (auto const& one : at.all) {
        if (one.is_body()) continue;
        if (is_our_mark(one) && one.age >= older_than / 2) remove(at.path(one));
        else is_held = true;
    }
    if (youngest == nullptr || is_held || youngest->age < older_than) return false;
    for (auto const& one : at.all)
        if (one.is_body()) remove(at.path(one));
    return true;
}

}  // namespace skald::s3_detail
