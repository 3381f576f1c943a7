// The file that says where the databases of a shop are, for services without a broker.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "support/shop.hpp"

namespace skald::test {

/// Gone with this.
struct peers_file
{
    explicit peers_file(std::string const& text) { std::ofstream{path} << text; }
    ~peers_file() { std::filesystem::remove(path); }
    peers_file(peers_file const&) = delete;
    peers_file& operator=(peers_file const&) = delete;

    std::string path{(std::filesystem::temp_directory_path() / ("skald-peers-" + std::to_string(::getpid()))).string()};
};

inline std::string lines_of(shop& s)
{
    return "# the shop\norders = " + s.orders_db.url() + " \npayments=" + s.payments_db.url() +
           "\nshipping=" + s.shipping_db.url() + "\n";
}

}  // namespace skald::test
