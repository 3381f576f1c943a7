#include <skald/s3.hpp>

#include "ports/fault.hpp"
#include "s3/s3_bodies.hpp"

#include <skald/config.hpp>
#include <skald/errors.hpp>

#include <stdexcept>

namespace skald {
namespace {

constexpr std::string_view s3_mark = "s3:";

std::shared_ptr<ports::body_store> make_bodies(config const& settings, std::string const& holder)
try {
    if (settings.s3_key.empty() || settings.s3_secret.empty())
        throw configuration_error{"SKALD_BODY_STORE=" + settings.body_store +
                                  " needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"};
    s3_detail::client_options options;
    options.where = s3_detail::parse_address(std::string_view{settings.body_store}.substr(s3_mark.size()));
    options.who = {settings.s3_key, settings.s3_secret, settings.s3_token, settings.s3_region};
    auto made = std::make_shared<s3_detail::s3_bodies>(std::move(options), holder);
    try {
        if (auto const why = made->refusal(); !why.empty())
            throw configuration_error{made->name() + " can't be used: it answers " + why +
                                      "; look at the bucket, AWS_ACCESS_KEY_ID and AWS_REGION"};
    }
    catch (ports::fault const&) {
        // It may be there by the time that a body is large: until then its deliveries are tried again.
    }
    return made;
}
catch (std::invalid_argument const& error) {
    throw configuration_error{error.what()};
}

}  // namespace

detail::body_store_maker s3()
{
    return make_bodies;
}

}  // namespace skald
