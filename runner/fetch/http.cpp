#include "runner/fetch/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "contract/text/utf8.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRedirects = 5;
constexpr size_t kMostHeaders = 200;
constexpr int kPollMs = 100;
constexpr double kLongestRetryAfterS = 120;

struct UrlParts {
  std::string scheme, host, port;
  bool operator==(const UrlParts&) const = default;
};

std::optional<UrlParts> parts_of(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK)
      return std::string();
    std::string copy = text;
    curl_free(text);
    return copy;
  };
  UrlParts parts{part(CURLUPART_SCHEME), part(CURLUPART_HOST), part(CURLUPART_PORT)};
  std::ranges::transform(parts.host, parts.host.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return parts;
}

// The file of trusted certificates, from the environment or the system. Empty: libcurl's default.
std::string certificates() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (std::filesystem::exists(file)) return file;
  }
  return "";
}

double retry_after_s(const HttpResponse& response) {
  const std::string text(response.header("retry-after"));
  return std::clamp(std::strtod(text.c_str(), nullptr), 0.0, kLongestRetryAfterS);
}

bool is_temporary_status(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

// The server's own message about the error, made safe to display.
std::string said_by_server(const HttpResponse& response) {
  const std::string_view message = response.header("x-error-message");
  return message.empty() ? "" : ": " + visible_line(shortened(message, 300));
}

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

bool is_same_origin(const std::string& url, const std::string& other) {
  const auto parts = parts_of(url);
  return parts && parts == parts_of(other);
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string encoded;
  for (const char c : text) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       kept.find(c) != std::string_view::npos;
    if (stays) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

// libcurl's handles, and the state that callbacks of the current request write.
struct HttpClient::Connection {
  CURL* easy = curl_easy_init();
  CURLM* multi = curl_multi_init();
  std::array<char, CURL_ERROR_SIZE> problem{};
  HttpResponse response;
  const Body* body = nullptr;
  std::exception_ptr thrown;
  Clock::time_point last_byte;

  ~Connection() {
    curl_multi_cleanup(multi);
    curl_easy_cleanup(easy);
  }

  static size_t take_header(char* bytes, size_t, size_t count, void* self) {
    auto& connection = *static_cast<Connection*>(self);
    connection.last_byte = Clock::now();
    const std::string_view line(bytes, count);
    if (line.starts_with("HTTP/")) connection.response.headers.clear();
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return count;
    if (connection.response.headers.size() >= kMostHeaders) return 0;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    const std::string_view blanks = " \t\r\n";
    const size_t begin = line.find_first_not_of(blanks, colon + 1);
    const size_t end = line.find_last_not_of(blanks);
    connection.response.headers[name] =
        begin == std::string_view::npos ? "" : line.substr(begin, end + 1 - begin);
    return count;
  }

  static size_t take_body(char* bytes, size_t, size_t count, void* self) {
    auto& connection = *static_cast<Connection*>(self);
    connection.last_byte = Clock::now();
    long status = 0;
    curl_easy_getinfo(connection.easy, CURLINFO_RESPONSE_CODE, &status);
    connection.response.status = static_cast<int>(status);
    if (status != 200 && status != 206) return count;  // a page about the error
    try {
      (*connection.body)(connection.response, {bytes, count});
      return count;
    } catch (...) {
      connection.thrown = std::current_exception();
      return count == 0 ? 1 : 0;
    }
  }
};

HttpClient::HttpClient(const Endpoint& endpoint, std::stop_token stop)
    : endpoint_(endpoint), stop_(std::move(stop)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  connection_ = std::make_unique<Connection>();
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::perform(const std::string& url, int64_t first_byte, const Body& body,
                                 std::string& redirect) {
  Connection& c = *connection_;
  curl_easy_reset(c.easy);
  c.response = {};
  c.body = &body;
  c.thrown = nullptr;
  c.problem.front() = '\0';
  curl_easy_setopt(c.easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c.easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c.easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c.easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(c.easy, CURLOPT_USERAGENT, "fsdp-run");
  curl_easy_setopt(c.easy, CURLOPT_ERRORBUFFER, c.problem.data());
  curl_easy_setopt(c.easy, CURLOPT_HEADERFUNCTION, Connection::take_header);
  curl_easy_setopt(c.easy, CURLOPT_HEADERDATA, &c);
  curl_easy_setopt(c.easy, CURLOPT_WRITEFUNCTION, Connection::take_body);
  curl_easy_setopt(c.easy, CURLOPT_WRITEDATA, &c);
  if (const std::string file = certificates(); !file.empty()) {
    curl_easy_setopt(c.easy, CURLOPT_CAINFO, file.c_str());
  }
  const std::string range = fmt::format("{}-", first_byte);
  if (first_byte > 0) curl_easy_setopt(c.easy, CURLOPT_RANGE, range.c_str());
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(nullptr, curl_slist_free_all);
  if (!endpoint_.token.empty() && is_same_origin(url, endpoint_.url)) {
    const std::string line = "Authorization: Bearer " + endpoint_.token;
    headers.reset(curl_slist_append(nullptr, line.c_str()));
    curl_easy_setopt(c.easy, CURLOPT_HTTPHEADER, headers.get());
  }

  c.last_byte = Clock::now();
  curl_multi_add_handle(c.multi, c.easy);
  std::exception_ptr failure;
  CURLcode code = CURLE_OK;
  for (int running = 1; running > 0;) {
    curl_multi_perform(c.multi, &running);
    int queued = 0;
    if (const CURLMsg* message = curl_multi_info_read(c.multi, &queued)) {
      code = message->data.result;
    }
    if (running == 0) break;
    if (stop_.stop_requested()) failure = std::make_exception_ptr(Interrupted());
    if (Clock::now() - c.last_byte > std::chrono::duration<double>(endpoint_.patience_s)) {
      failure = std::make_exception_ptr(HttpError(
          fmt::format("the server sent nothing for {:.3g} s", endpoint_.patience_s), 0, true));
    }
    if (failure) break;
    curl_multi_poll(c.multi, nullptr, 0, kPollMs, nullptr);
  }
  long status = 0;
  char* location = nullptr;
  curl_easy_getinfo(c.easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(c.easy, CURLINFO_REDIRECT_URL, &location);
  redirect = location == nullptr ? "" : location;
  c.response.status = static_cast<int>(status);
  curl_multi_remove_handle(c.multi, c.easy);
  if (c.thrown) std::rethrow_exception(c.thrown);
  if (failure) std::rethrow_exception(failure);
  if (code != CURLE_OK) {
    const char* problem = c.problem.front() != '\0' ? c.problem.data() : curl_easy_strerror(code);
    const bool is_certain = code == CURLE_PEER_FAILED_VERIFICATION ||
                            code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT ||
                            code == CURLE_UNSUPPORTED_PROTOCOL;
    throw HttpError(visible_line(problem), 0, !is_certain);
  }
  return c.response;
}

HttpResponse HttpClient::get(const std::string& url, int64_t first_byte, const Body& body) {
  std::string place = url;
  for (int redirects = 0; redirects <= kMostRedirects; ++redirects) {
    std::string next;
    const HttpResponse response = perform(place, first_byte, body, next);
    if (response.status == 200 || response.status == 206) return response;
    const bool leads_on = response.status >= 300 && response.status < 400 && !next.empty();
    if (!leads_on) {
      throw HttpError(
          fmt::format("the server answered {}{}", response.status, said_by_server(response)),
          response.status, is_temporary_status(response.status), retry_after_s(response));
    }
    if (place.starts_with("https:") && !next.starts_with("https:")) {
      throw HttpError("the server leads from https to what is not encrypted", 0, false);
    }
    place = std::move(next);
  }
  throw HttpError(fmt::format("the server led on more than {} times", kMostRedirects), 0, false);
}

std::string HttpClient::get_text(const std::string& url, size_t most_bytes,
                                 HttpResponse& response) {
  std::string text;
  response = get(url, 0, [&](const HttpResponse&, std::string_view bytes) {
    if (text.size() + bytes.size() > most_bytes) {
      throw HttpError(fmt::format("the server's answer has more than {} bytes", most_bytes), 200,
                      false);
    }
    text += bytes;
  });
  return text;
}

void HttpClient::wait(double seconds) const {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  if (stop_.stop_requested()) throw Interrupted();
  while (Clock::now() < end) {
    curl_multi_poll(connection_->multi, nullptr, 0, kPollMs, nullptr);
    if (stop_.stop_requested()) throw Interrupted();
  }
}

}  // namespace fsdp
