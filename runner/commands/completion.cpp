#include <iostream>
#include <memory>
#include <string>

#include "runner/commands/commands.h"

namespace fsdp {
namespace {

constexpr const char* kBash = R"sh(# source <(fsdp-run completion bash)
_fsdp_run() {
  local word candidate words=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    words+=("${word//[\\\"\']/}")
  done
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    COMPREPLY+=("$candidate")
  done < <("${COMP_WORDS[0]/#\~/$HOME}" complete -- "${words[@]}" 2>/dev/null)
  [[ ${COMPREPLY[0]} == *= ]] || compopt -o filenames  # spaces are escaped
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
}
complete -F _fsdp_run fsdp-run
)sh";

constexpr const char* kZsh = R"sh(# source <(fsdp-run completion zsh), after compinit
_fsdp_run() {
  local line candidate
  local -a words_so_far candidates texts open_candidates open_texts
  words_so_far=("${(@Q)words[2,CURRENT]}")
  for line in "${(@f)$(${(Q)~words[1]} complete -- "${words_so_far[@]}" 2>/dev/null)}"; do
    candidate=${line%%$'\t'*}
    [[ -z $candidate ]] && continue
    if [[ $candidate == *[=/] ]]; then
      open_candidates+=("$candidate") open_texts+=("${line/$'\t'/  -- }")
    else
      candidates+=("$candidate") texts+=("${line/$'\t'/  -- }")
    fi
  done
  compadd -l -d texts -a candidates
  compadd -l -d open_texts -S '' -a open_candidates
}
compdef _fsdp_run fsdp-run
)sh";

constexpr const char* kFish = R"sh(# fsdp-run completion fish | source
function __fsdp_run_complete
    set -l so_far (commandline -opc)
    set -l current (string unescape -- (commandline -ct))
    set -l program $so_far[1]
    set -e so_far[1]
    $program complete -- $so_far "$current" 2>/dev/null
end
complete -c fsdp-run -f -a '(__fsdp_run_complete)'
)sh";

}  // namespace

CommandFunction add_completion_command(CLI::App& command) {
  command.footer(R"(Examples:
  source <(fsdp-run completion bash)       in ~/.bashrc
  source <(fsdp-run completion zsh)        in ~/.zshrc, after compinit
  fsdp-run completion fish | source        in ~/.config/fish/config.fish)");
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return [shell] {
    std::cout << (*shell == "bash" ? kBash : *shell == "zsh" ? kZsh : kFish);
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
