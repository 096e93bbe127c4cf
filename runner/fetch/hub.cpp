#include "runner/fetch/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "contract/files/hub_cache.h"
#include "contract/text/config_error.h"
#include "contract/text/foreign_json.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

using nlohmann::json;

constexpr int kMostTriesOfHub = 6;
constexpr int kMostPages = 1000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Finds the token like Hugging Face's libraries. Messages never contain it.
std::string find_token() {
  std::string token;
  std::string place;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (token = trimmed(variable(name)); !token.empty()) {
      place = name;
      break;
    }
  }
  if (token.empty() && is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  if (token.empty()) {
    const std::string named = variable("HF_TOKEN_PATH");
    place = named.empty() ? (hub_home() / "token").string() : named;
    std::ifstream file(place);
    std::getline(file, token);
    token = trimmed(token);
  }
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (is_plain) return token;
  throw ConfigError(place, "", "is no token: it holds blanks or what is no ASCII");
}

// The remedy if a hub does not answer.
constexpr const char* kWaysToAHub =
    "; fetch on a host that reaches the internet, such as a login node, into a cache that this one "
    "sees (HF_HOME); https_proxy names a proxy, HF_ENDPOINT another hub, CURL_CA_BUNDLE "
    "certificates "
    "that are trusted";

std::string kind_of(const HubName& name) { return name.is_dataset ? "datasets" : "models"; }

std::string prefix_of(const HubName& name) {
  return (name.is_dataset ? "datasets/" : "") + percent_encoded(name.repository, "/");
}

// Says whether a token was sent, for the message about a refusal.
std::string token_text(const Endpoint& endpoint) {
  return endpoint.token.empty() ? "HF_TOKEN is not set, and there is no token file"
                                : "the token of HF_TOKEN, or of the token file, was sent";
}

[[noreturn]] void refuse_access(const HubName& name, const HttpError& error,
                                const Endpoint& endpoint) {
  const std::string page = endpoint.url + '/' + prefix_of(name);
  throw ConfigError(
      "", "",
      fmt::format("{}: {}; {}. It may be private, or ask for its conditions to be agreed to at {}, "
                  "or not exist at all; a token that may read it comes from {}/settings/tokens",
                  name.repository_text(), error.what(), token_text(endpoint), page, endpoint.url));
}

// The next page of a list: the address in <> of a header Link with rel="next". Empty: no more.
std::string next_page(const HttpResponse& response) {
  const std::string_view link = response.header("link");
  const size_t open = link.find('<');
  const size_t close = link.find('>', open);
  if (close == std::string_view::npos) return "";
  if (link.find("rel=\"next\"", close) == std::string_view::npos) return "";
  return std::string(link.substr(open + 1, close - open - 1));
}

}  // namespace

Endpoint endpoint_from_environment(double patience_s) {
  if (is_true(variable("HF_HUB_OFFLINE"))) {
    throw ConfigError("HF_HUB_OFFLINE", "", "is set, so that nothing can be fetched; unset it");
  }
  std::string url = trimmed(variable("HF_ENDPOINT"));
  if (url.empty()) url = "https://huggingface.co";
  while (url.ends_with('/')) url.pop_back();
  if (!is_same_origin(url, url) || !(url.starts_with("http://") || url.starts_with("https://"))) {
    throw ConfigError("HF_ENDPOINT", "",
                      visible_line(url) + " is no address such as https://huggingface.co");
  }
  if (url.find('@') != std::string::npos) {
    throw ConfigError("HF_ENDPOINT", "", "holds a user's name or password; give HF_TOKEN instead");
  }
  return {url, find_token(), patience_s};
}

std::string Hub::get_text(const HubName& name, const std::string& url, HttpResponse& response) {
  for (int tries = 1;; ++tries) {
    try {
      return http_.get_text(url, kLargestJsonBytes, response);
    } catch (const HttpError& error) {
      if (error.status == 401 || error.status == 403) refuse_access(name, error, endpoint_);
      if (error.status == 404) throw;
      if (!error.is_temporary || tries == kMostTriesOfHub) {
        throw std::runtime_error(fmt::format("{} of {}: {}{}{}", name.repository_text(),
                                             endpoint_.url, error.what(),
                                             tries > 1 ? fmt::format(" ({} times)", tries) : "",
                                             error.status == 0 ? kWaysToAHub : ""));
      }
      http_.wait(std::max(first_wait_s_ * (1 << (tries - 1)), error.retry_after_s));
    }
  }
}

std::string Hub::commit_of(const HubName& name) {
  const std::string place =
      fmt::format("{}/api/{}/{}/revision/{}", endpoint_.url, kind_of(name),
                  percent_encoded(name.repository, "/"), percent_encoded(name.revision, ""));
  HttpResponse response;
  std::string text;
  try {
    text = get_text(name, place, response);
  } catch (const HttpError&) {  // 404
    throw ConfigError(
        "", "",
        fmt::format("{} is not on {}: it has no such {}, or no revision '{}' of it",
                    name.repository_text(), endpoint_.url, name.is_dataset ? "data set" : "model",
                    visible_line(name.revision)));
  }
  std::string commit;
  try {
    commit = parse_foreign_json(text).at("sha").get<std::string>();
  } catch (const std::exception&) {  // no JSON, or another
  }
  const HubName named{.revision = commit};
  if (named.is_commit()) return commit;
  throw std::runtime_error(fmt::format(
      "{} answers {} with something else than a hub would; HF_ENDPOINT may name another server, or "
      "a proxy or a log-in page stand before it",
      endpoint_.url, place));
}

std::vector<ListedFile> Hub::files(const HubName& name, const std::string& commit,
                                   const std::string& folder, bool is_recursive) {
  std::string place = fmt::format("{}/api/{}/{}/tree/{}", endpoint_.url, kind_of(name),
                                  percent_encoded(name.repository, "/"), commit);
  if (!folder.empty()) place += '/' + percent_encoded(folder, "/");
  if (is_recursive) place += "?recursive=true";
  const std::string hub = endpoint_.url + ", for " + name.repository_text() + ',';
  std::vector<ListedFile> files;
  for (int page = 0; !place.empty(); ++page) {
    HttpResponse response;
    try {
      const json list = parse_foreign_json(get_text(name, place, response));
      for (const json& entry : list) {
        if (entry.at("type").get<std::string>() == "file") files.push_back(listed_file(entry, hub));
      }
      place = next_page(response);
      if (page == kMostPages) throw std::runtime_error(hub + " has a list of files without an end");
      if (!place.empty() && !is_same_origin(place, endpoint_.url)) {
        throw std::runtime_error(hub + " has a list of files that goes on at another server");
      }
    } catch (const HttpError&) {  // 404
      return {};
    } catch (const json::exception&) {
      throw std::runtime_error(hub + " lists files in another form than a hub would");
    }
  }
  return files;
}

std::string Hub::url(const HubName& name, const std::string& commit,
                     const std::string& path) const {
  return fmt::format("{}/{}/resolve/{}/{}", endpoint_.url, prefix_of(name), commit,
                     percent_encoded(path, "/"));
}

}  // namespace fsdp
