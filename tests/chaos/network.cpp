#include "network.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace order_storm {
namespace {

struct address
{
    std::string before, after;  // around the nodes
    std::vector<std::pair<std::string, int>> nodes;
};

address parse_address(std::string const& url)
{
    auto const credentials = url.find('@');
    auto const begin = (credentials == std::string::npos ? url.find("://") + 2 : credentials) + 1;
    auto const end = std::min(url.find('/', begin), url.size());
    address parsed{url.substr(0, begin), url.substr(end), {}};
    std::istringstream nodes{url.substr(begin, end - begin)};
    for (std::string node; std::getline(nodes, node, ',');) {
        auto const colon = node.find(':');
        if (colon == std::string::npos) throw std::invalid_argument{"an address without a port"};
        parsed.nodes.emplace_back(node.substr(0, colon), std::stoi(node.substr(colon + 1)));
    }
    return parsed;
}

}  // namespace

network::network(std::string const& url)
{
    for (auto const& [host, port] : parse_address(url).nodes)
        links_.push_back(std::make_unique<skald::test::tcp_proxy>(host, port));
}

network::network(std::vector<int> const& ports)
{
    for (std::size_t i = 0; i + 1 < ports.size(); i += 2)
        links_.push_back(std::make_unique<skald::test::tcp_proxy>("127.0.0.1", ports[i], ports[i + 1]));
}

std::string network::addresses() const
{
    std::string all;
    for (auto const& link : links_) all += fmt::format("{}127.0.0.1:{}", all.empty() ? "" : ",", link->port());
    return all;
}

std::string network::through(std::string const& url) const
{
    auto const there = parse_address(url);
    return there.before + addresses() + there.after;
}

void network::cut(bool on)
{
    for (auto const& link : links_) on ? link->cut() : link->restore();
}

void network::stall(bool on)
{
    for (auto const& link : links_) link->hold_answers(on);
}

}  // namespace order_storm
