#include "s3/client.hpp"

#include "ports/fault.hpp"
#include "s3/listing.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <curl/curl.h>

namespace skald::s3_detail {
namespace {

constexpr char const* sha256_of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr long buffer_bytes = 256 * 1024;

/// The headers of a request.
class header_lines
{
public:
    header_lines() = default;
    ~header_lines() { curl_slist_free_all(all_); }
    header_lines(header_lines const&) = delete;
    header_lines& operator=(header_lines const&) = delete;

    void add(std::string const& line)
    {
        auto* const longer = curl_slist_append(all_, line.c_str());
        if (longer == nullptr) throw std::bad_alloc{};
        all_ = longer;
    }
    curl_slist* get() const { return all_; }

private:
    curl_slist* all_{};
};

/// What a transfer reads from and writes to.
struct transfer
{
    std::string_view whole;
    std::string_view left;
    std::string* into;
    std::size_t into_max;
    std::chrono::sys_seconds now{};
    bool is_too_long{};
};

std::size_t give_bytes(char* to, std::size_t size, std::size_t count, void* with)
{
    auto& left = static_cast<transfer*>(with)->left;
    auto const given = std::min(size * count, left.size());
    std::memcpy(to, left.data(), given);
    left.remove_prefix(given);
    return given;
}

// A connection that was kept may be gone only when some of it has been sent: then it is sent again on another.
int go_back(void* with, curl_off_t to, int from)
{
    auto& t = *static_cast<transfer*>(with);
    if (from != SEEK_SET || to < 0 || static_cast<std::size_t>(to) > t.whole.size()) return CURL_SEEKFUNC_FAIL;
    t.left = t.whole.substr(static_cast<std::size_t>(to));
    return CURL_SEEKFUNC_OK;
}

std::size_t take_bytes(char* from, std::size_t size, std::size_t count, void* with)
{
    auto& t = *static_cast<transfer*>(with);
    auto const bytes = size * count;
    t.is_too_long = t.into->size() + bytes > t.into_max;
    if (t.is_too_long) return 0;
    try {
        t.into->append(from, bytes);
    }
    catch (std::bad_alloc const&) {  // through C there must go none
        return 0;
    }
    return bytes;
}

std::size_t take_header(char* from, std::size_t size, std::size_t count, void* with)
{
    std::string_view const line{from, size * count};
    constexpr std::string_view date = "date:";
    if (line.size() > date.size() && curl_strnequal(line.data(), date.data(), date.size()) != 0) {
        // Without the end of the line, and ended as C ends it.
        std::string value;
        for (char const c : line.substr(date.size()))
            if (c != '\r' && c != '\n') value += c;
        if (auto const at = curl_getdate(value.c_str(), nullptr); at > 0)
            static_cast<transfer*>(with)->now = std::chrono::sys_seconds{std::chrono::seconds{at}};
    }
    return size * count;
}

void make_ready_once()
{
    static auto const done = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (done != CURLE_OK) throw ports::fault{ports::fault_kind::unavailable, "libcurl can't be used"};
}

}  // namespace

class client::handle
{
public:
    handle() : curl_{curl_easy_init()}
    {
        if (curl_ == nullptr) throw std::bad_alloc{};
    }
    ~handle() { curl_easy_cleanup(curl_); }
    handle(handle const&) = delete;
    handle& operator=(handle const&) = delete;

    /// Keeps the connection, and nothing else.
    void reset() { curl_easy_reset(curl_); }
    template <class Value>
    void set(CURLoption which, Value value)
    {
        if (auto const code = curl_easy_setopt(curl_, which, value); code != CURLE_OK)
            throw ports::fault{ports::fault_kind::unavailable,
                               std::string{"libcurl refuses an option: "} + curl_easy_strerror(code)};
    }
    CURLcode perform() { return curl_easy_perform(curl_); }
    long status() const
    {
        long status = 0;
        curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
        return status;
    }

private:
    CURL* curl_;
};

std::string response::in_words() const
{
    auto said = std::string{element(body, "Code")};
    if (auto const message = element(body, "Message"); !message.empty()) said.append(": ").append(message);
    return std::to_string(status) + (said.empty() ? "" : ' ' + said.substr(0, 500));
}

client::client(client_options options) : options_{std::move(options)}
{
    make_ready_once();
}

client::~client() = default;

std::unique_ptr<client::handle> client::take()
{
    {
        std::lock_guard const lock{mutex_};
        if (!free_.empty()) {
            auto found = std::move(free_.back());
            free_.pop_back();
            return found;
        }
    }
    return std::make_unique<handle>();
}

void client::give_back(std::unique_ptr<handle> used)
{
    used->reset();
    std::lock_guard const lock{mutex_};
    free_.push_back(std::move(used));
}

response client::send(request const& what)
{
    auto const& at = options_.where;
    auto const path = [&](std::string const& name) {
        return '/' + at.bucket + (name.empty() ? "" : '/' + at.prefix + name);
    };
    auto url = at.server + path(what.name) + (what.query.empty() ? "" : '?' + what.query);

    header_lines headers;
    headers.add("x-amz-content-sha256: " + (what.body_sha256.empty() ? sha256_of_nothing : what.body_sha256));
    if (!options_.who.token.empty()) headers.add("x-amz-security-token: " + options_.who.token);
    if (!what.copy_of.empty()) headers.add("x-amz-copy-source: " + path(what.copy_of));
    headers.add("Expect:");  // else libcurl waits a second for a server that does not know it
    if (what.method == "PUT") headers.add("Content-Type: application/octet-stream");

    response got;
    transfer under_way{what.body, what.body, &got.body, what.answer_max};
    auto with = take();
    with->set(CURLOPT_URL, url.c_str());
    with->set(CURLOPT_PROTOCOLS_STR, "http,https");
    with->set(CURLOPT_NOSIGNAL, 1L);
    with->set(CURLOPT_USERPWD, (options_.who.key + ':' + options_.who.secret).c_str());
    with->set(CURLOPT_AWS_SIGV4, ("aws:amz:" + options_.who.region + ":s3").c_str());
    with->set(CURLOPT_HTTPHEADER, headers.get());
    with->set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_time.count()));
    auto const bytes = static_cast<long>(std::max(what.body.size(), what.answer_max));
    with->set(CURLOPT_TIMEOUT_MS, static_cast<long>((options_.connect_time + options_.spare_time).count()) +
                                      bytes * 1'000 / options_.whole_rate);
    with->set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.slow_time.count()));
    with->set(CURLOPT_LOW_SPEED_LIMIT, options_.slow_rate);
    with->set(CURLOPT_BUFFERSIZE, buffer_bytes);
    if (what.method == "PUT") {
        with->set(CURLOPT_UPLOAD, 1L);
        with->set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(what.body.size()));
        with->set(CURLOPT_READFUNCTION, &give_bytes);
        with->set(CURLOPT_READDATA, static_cast<void*>(&under_way));
        with->set(CURLOPT_SEEKFUNCTION, &go_back);
        with->set(CURLOPT_SEEKDATA, static_cast<void*>(&under_way));
    }
    else with->set(CURLOPT_CUSTOMREQUEST, what.method.c_str());
    with->set(CURLOPT_WRITEFUNCTION, &take_bytes);
    with->set(CURLOPT_WRITEDATA, static_cast<void*>(&under_way));
    with->set(CURLOPT_HEADERFUNCTION, &take_header);
    with->set(CURLOPT_HEADERDATA, static_cast<void*>(&under_way));

    auto const code = with->perform();
    got.status = with->status();
    got.now = under_way.now;
    if (code != CURLE_OK) {
        auto const why = under_way.is_too_long ? "it sent more than was asked for" : curl_easy_strerror(code);
        throw ports::fault{ports::fault_kind::unavailable, at.server + '/' + at.bucket + " can't be used: " + why};
    }
    give_back(std::move(with));
    return got;
}

}  // namespace skald::s3_detail
