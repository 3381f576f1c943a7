#include "inbox/peers.hpp"

#include "postgres/conninfo.hpp"

#include <skald/errors.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

namespace skald::inbox {
namespace {

std::string read_file(std::string const& path)
{
    std::ifstream file{path, std::ios::binary};
    std::string text{std::istreambuf_iterator<char>{file}, {}};
    if (!file) throw configuration_error{"SKALD_PEERS_FILE: " + path + " can't be read"};
    return text;
}

}  // namespace

peer_map read_peers(std::string const& path)
{
    auto const parsed = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions*/ false);
    if (!parsed.is_object())
        throw configuration_error{"SKALD_PEERS_FILE: " + path +
                                  R"( is no JSON object such as {"payments": "postgresql://host/payments"})"};
    peer_map peers;
    for (auto const& [service, where] : parsed.items()) {
        if (!where.is_string())
            throw configuration_error{"SKALD_PEERS_FILE: " + path + ": the address of `" + service + "` is no text"};
        postgres::check_settings(where.get<std::string>(), path + ", `" + service + "`");
        peers.emplace(service, where.get<std::string>());
    }
    return peers;
}

}  // namespace skald::inbox
