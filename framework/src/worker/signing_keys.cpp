#include "worker/signing_keys.hpp"

#include "core/regular_file.hpp"

#include <skald/errors.hpp>

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace skald::worker_detail {
namespace {

constexpr std::size_t keys_max = 2;

[[noreturn]] void refuse(std::string const& file, std::string_view why)
{
    throw configuration_error{fmt::format("SKALD_SIGNING_KEYS ({}) {}", file, why)};
}

std::vector<std::string> files_of(std::string const& names)
{
    std::vector<std::string> files;
    std::istringstream list{names};
    for (std::string one; std::getline(list, one, ',');) files.push_back(one);
    if (files.size() > keys_max)
        throw configuration_error{fmt::format(
            "SKALD_SIGNING_KEYS names {} files, and may name two: the key that signs, and one more that is accepted",
            files.size())};
    return files;
}

std::string read_file(std::string const& name)
try {
    return core::read_regular_file(name);
}
catch (core::file_not_read const& met) {
    refuse(name, met.what());
}

core::signing_key read_key(std::string const& name)
{
    auto const text = read_file(name);
    struct stat about
    {};
    if (::stat(name.c_str(), &about) == 0 && (about.st_mode & (S_IROTH | S_IWOTH)) != 0)
        refuse(name, "may be read or written by everybody on this machine: chmod o-rw, and make a new key");
    if (auto key = core::signing_key::parse(text)) return *key;
    refuse(name, "holds no key: at least 64 hexadecimal digits, as `openssl rand -hex 32` writes them");
}

}  // namespace

std::optional<core::key_ring> read_signing_keys(config const& settings)
{
    // Whoever names a key believes that messages are signed.
    if (settings.signatures == "off" && !settings.signing_keys.empty())
        throw configuration_error{
            "SKALD_SIGNING_KEYS is of SKALD_SIGNATURES=sign or require, without which nothing is signed: set that too, "
            "or leave it out"};
    if (settings.signatures == "off") return std::nullopt;
    if (settings.signing_keys.empty())
        throw configuration_error{"SKALD_SIGNING_KEYS is missing: with SKALD_SIGNATURES=" + settings.signatures +
                                  " it names the file with the key"};
    std::vector<core::signing_key> keys;
    std::set<std::string> ids;
    for (auto const& file : files_of(settings.signing_keys)) {
        keys.push_back(read_key(file));
        if (!ids.insert(keys.back().id()).second) refuse(file, "holds the same key as the other file");
    }
    return core::key_ring{std::move(keys)};
}

void log_signing(config const& settings, core::key_ring const& keys, core::logger& log)
{
    auto const ids = keys.ids();
    log.info("worker.signing", {{"signatures", settings.signatures},
                                {"signs_with", ids.front()},
                                {"takes_too", ids.size() > 1 ? ids.back() : std::string{"none"}}});
}

}  // namespace skald::worker_detail
