#include <skald/redis.hpp>

#include "redis/redis_front.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <algorithm>

namespace skald {
namespace {

// More than this many requests at a time gain nothing: Redis answers one at a time.
constexpr std::size_t links_max = 16;

std::shared_ptr<ports::front> make_front(config const& settings, logger& log)
try {
    if (settings.redis_url.empty())
        throw configuration_error{"SKALD_GUARD=" + settings.guard +
                                  " needs Redis: set SKALD_REDIS_URL, such as redis://127.0.0.1:6379"};
    redis_detail::front_options options{.where = redis_detail::parse_url(settings.redis_url),
                                        .time = settings.redis_time,
                                        .hold = settings.redis_hold,
                                        .links = std::min(settings.http_lanes, links_max)};
    return std::make_shared<redis_detail::redis_front>(std::move(options), log);
}
catch (std::invalid_argument const& error) {
    throw configuration_error{error.what()};
}

}  // namespace

detail::front_maker redis()
{
    return make_front;
}

}  // namespace skald
