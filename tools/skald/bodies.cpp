#include "bodies.hpp"

#include "worker/body_stores.hpp"

#include <skald/errors.hpp>
#ifdef SKALD_HAS_S3
#include <skald/s3.hpp>
#endif

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

namespace skald::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view directory_of_bodies = "directory:";

uid_t owner_of_file(std::string const& path)
{
    struct stat met
    {};
    if (::stat(path.c_str(), &met) != 0)
        throw configuration_error{fmt::format("SKALD_BODY_STORE: there is no directory {} here: mount it", path)};
    return met.st_uid;
}

// Services may share it under several users; ours is one of them if a folder is ours.
void refuse_another_user(std::string const& directory)
{
    auto const us = ::geteuid();
    auto seen = owner_of_file(directory);
    bool is_strange = us == 0 && seen != us;  // root may write anywhere, and nobody may use it afterwards
    for (auto const& folder : fs::directory_iterator{directory}) {
        if (folder.path().filename().string().size() != 2) continue;
        seen = owner_of_file(folder.path().string());
        is_strange = seen != us;
        if (!is_strange) break;
    }
    if (is_strange)
        throw configuration_error{fmt::format("the bodies in {} are those of the user with the id {}, and this is {}: "
                                              "run it as the user that the service runs as, or it could not use what "
                                              "this one makes there",
                                              directory, seen, us)};
}

detail::body_store_maker maker()
{
#ifdef SKALD_HAS_S3
    return s3();
#else
    return [](config const& settings, std::string const&) -> std::shared_ptr<ports::body_store> {
        throw configuration_error{"SKALD_BODY_STORE=" + settings.body_store +
                                  ": this `skald` was built without S3 (SKALD_S3=OFF)"};
    };
#endif
}

}  // namespace

std::shared_ptr<ports::body_store> body_store_of(config const& settings, postgres::ownership const& owner)
{
    if (owner.service.empty()) return {};
    std::string_view const where = settings.body_store;
    if (where.starts_with(directory_of_bodies))
        refuse_another_user(std::string{where.substr(directory_of_bodies.size())});
    return worker_detail::make_body_store(owner.service, owner.database, settings, maker());
}

}  // namespace skald::tools
