// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"assay"
	"assay/internal/codebase/sandbox"
	"assay/internal/safetext"
)

// git runs the git binary.
type git struct {
	cfg    Config
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

const (
	gitMemory  = 384 << 20 // of a process; a fetch has up to four large ones
	refsMemory = 48 << 20  // of a process of ls-remote, two of which hold the references: a host may send millions
	gitFiles   = 256
	maxRefs    = 64 << 10 // bytes of the output of commands with short answers
	maxTrouble = 300      // bytes of git's message in an error
)

// workspace is a private directory with the configuration of git commands for one remote.
type workspace struct {
	*git
	dir    string
	remote *remote
	secret []string // must not appear in messages
}

// open prepares commands for a remote. It resolves and checks the host of the remote, and pins its addresses for the
// commands. The caller closes the workspace.
func (g *git) open(ctx context.Context, r *remote, c Credential) (w *workspace, err error) {
	if err := Available(ctx); err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	if r.scheme != "file" {
		if addresses, err = g.resolve(ctx, r.host); err != nil {
			return nil, unprocessable("url", err.Error())
		}
	}
	dir, err := os.MkdirTemp(g.cfg.WorkDir, "git-")
	if err != nil {
		return nil, fmt.Errorf("make a private directory: %w", err)
	}
	w = &workspace{git: g, dir: dir, remote: r}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	cfg := &configFile{}
	cfg.add("core", "hooksPath", "/dev/null", "fsmonitor", "false", "symlinks", "false", "attributesFile", "/dev/null",
		"excludesFile", "/dev/null", "protectHFS", "true", "protectNTFS", "true", "autocrlf", "false", "askPass", "",
		"bigFileThreshold", "1m", "deltaBaseCacheLimit", "16m", "packedGitLimit", "128m", "packedGitWindowSize", "1m")
	cfg.add("protocol", "allow", "never")
	cfg.add(`protocol "`+r.scheme+`"`, "allow", "always")
	cfg.add("credential", "helper", "")
	cfg.add("transfer", "fsckObjects", "true", "bundleURI", "false")
	// Keep packs packed, so that the size limit for files is a limit for fetched data.
	cfg.add("fetch", "fsckObjects", "true", "unpackLimit", "1", "recurseSubmodules", "false", "uriProtocols", "")
	cfg.add("submodule", "recurse", "false")
	cfg.add("gc", "auto", "0")
	cfg.add("maintenance", "auto", "false")
	cfg.add("pack", "threads", "1")
	cfg.add("index", "threads", "1")
	cfg.add("checkout", "workers", "1")
	cfg.add("advice", "detachedHead", "false")
	switch r.scheme {
	case "https":
		w.configureHTTPS(cfg, c, addresses)
	case "ssh":
		err = w.configureSSH(cfg, c, addresses)
	case "file":
		// The directory is below a root that the operator allows. upload-pack uses this configuration, too.
		cfg.add("safe", "directory", "*")
		cfg.add("uploadpack", "allowAnySHA1InWant", "true")
	}
	if err != nil {
		return nil, err
	}
	return w, os.WriteFile(filepath.Join(dir, "config"), []byte(cfg.text.String()), 0o600)
}

func (w *workspace) close() {
	// If this fails, the next start removes the directory.
	_ = os.RemoveAll(w.dir)
}

func (w *workspace) configureHTTPS(cfg *configFile, c Credential, addresses []netip.Addr) {
	cfg.add("http", "followRedirects", "false", "sslVerify", "true", "proxy", "", "cookieFile", "", "lowSpeedLimit", "1000", "lowSpeedTime", "60")
	if w.cfg.CAFile != "" {
		cfg.add("http", "sslCAInfo", w.cfg.CAFile)
	}
	if _, err := netip.ParseAddr(w.remote.host); err != nil {
		var all []string
		for _, a := range addresses {
			text := a.String()
			if a.Is6() {
				text = "[" + text + "]"
			}
			all = append(all, text)
		}
		// Pin the checked addresses: a second resolution could return other addresses.
		cfg.add("http", "curloptResolve", w.remote.host+":"+cmp.Or(w.remote.port, "443")+":"+strings.Join(all, ","))
	}
	if c.Token != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(cmp.Or(c.Username, "git") + ":" + c.Token))
		w.secret = append(w.secret, c.Token, basic)
		cfg.add(`http "https://`+w.remote.authority()+`/"`, "extraHeader", "Authorization: Basic "+basic)
	}
}

func (w *workspace) configureSSH(cfg *configFile, c Credential, addresses []netip.Addr) error {
	program, err := executable("ssh")
	if err != nil {
		return err
	}
	key, known := filepath.Join(w.dir, "key"), w.knownHosts()
	if err := os.WriteFile(key, []byte(strings.TrimSpace(c.SSHKey)+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(known, []byte(c.KnownHosts), 0o600); err != nil {
		return err
	}
	strict := "yes"
	if c.KnownHosts == "" {
		strict = "accept-new"
	}
	alias := w.remote.host
	if w.remote.port != "" && w.remote.port != "22" {
		alias = "[" + alias + "]:" + w.remote.port
	}
	args := []string{
		program, "-F", "/dev/null", "-a", "-x", "-T", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=" + strict, "-o", "UserKnownHostsFile=" + known, "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "UpdateHostKeys=no", "-o", "CheckHostIP=no", "-o", "HashKnownHosts=no", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=20",
		// Connect to the checked address, and look up the host's key by its name.
		"-o", "HostName=" + addresses[0].String(), "-o", "HostKeyAlias=" + alias,
		"-o", "ProxyCommand=none", "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no",
	}
	for i, a := range args {
		args[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	cfg.add("core", "sshCommand", strings.Join(args, " "))
	return nil
}

func (w *workspace) knownHosts() string { return filepath.Join(w.dir, "known_hosts") }

// executable returns the path of a program.
func executable(name string) (string, error) {
	path, err := sandbox.Executable(name)
	if err != nil {
		return "", assay.Errorf(assay.CodeUnprocessable, "%s is not installed on the host of the agent, so the agent cannot read this repository", name)
	}
	return path, nil
}

// Git before this version ignores the pinned addresses (http.curloptResolve) and resolves the host again.
const minMajor, minMinor = 2, 37

// Available returns an error if git is not installed or too old. Local directories that are not git repositories can be
// read without git. The error has a code and a message for callers.
func Available(ctx context.Context) error {
	path, err := executable("git")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return fmt.Errorf("read the version of git: %w", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "git version %d.%d", &major, &minor); err != nil {
		return fmt.Errorf("read the version of git: %w", err)
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return assay.Errorf(assay.CodeUnprocessable, "git on the host of the agent has the version %d.%d, and the agent needs %d.%d", major, minor, minMajor, minMinor)
	}
	return nil
}

// run runs a git command. Its errors have a code and a message for callers.
func (w *workspace) run(ctx context.Context, dir string, out io.Writer, args ...string) error {
	return w.runInput(ctx, dir, nil, out, args...)
}

// runInput is run with standard input.
func (w *workspace) runInput(ctx context.Context, dir string, input []byte, out io.Writer, args ...string) error {
	path, err := executable("git")
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, w.cfg.Limits.Time)
	defer cancel()
	memory := int64(gitMemory)
	if args[0] == "ls-remote" {
		memory = refsMemory
	}
	err = sandbox.Run(limited, sandbox.Command{
		Path: path, Args: args, Dir: dir, Input: input, Output: out, Network: w.remote.scheme != "file",
		Env: []string{
			"PATH=" + sandbox.Path(), "HOME=" + w.dir, "TMPDIR=" + w.dir, "LC_ALL=C",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + filepath.Join(w.dir, "config"), "GIT_ATTR_NOSYSTEM=1",
			"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=" + w.remote.scheme, "GIT_PROTOCOL_FROM_USER=0",
			"GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_CEILING_DIRECTORIES=" + w.dir,
		},
		Limits: sandbox.Limits{Memory: memory, File: w.cfg.Limits.Bytes, Files: gitFiles, CPU: w.cfg.Limits.Time},
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return assay.Errorf(assay.CodeUnprocessable, "git did not finish within %v", w.cfg.Limits.Time.Round(time.Second))
	}
	return w.explain(err)
}

const tooLarge = "the repository is larger than the limit (--agent-max-clone-size), or its objects are broken"

// troubles maps parts of git's messages to messages for callers, the most specific first.
var troubles = []struct{ part, message string }{
	{"Authentication failed", "the source host rejected the credential"},
	{"could not read Username", "the repository does not exist or needs a credential"},
	{"Permission denied (", "the source host rejected the SSH key"},
	{"Host key verification failed", "the SSH key of the host is not the known one"},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the SSH key of the host is not the known one"},
	{"returned error: 30", "the source host redirects; use the URL that it redirects to, for example with .git at the end"},
	{"returned error: 401", "the source host rejected the credential"},
	{"returned error: 403", "the source host denies access"},
	{"returned error: 404", "the repository does not exist or needs a credential"},
	{"certificate", "the certificate of the source host is not valid"},
	{"Out of memory", "the repository needs more memory than the limit"},
	{"out of memory", "the repository needs more memory than the limit"},
	{"(stale info)", "the branch has changed meanwhile; start the run again"},
	{"[remote rejected]", "the source host rejects the branch; a rule of the repository may protect it"},
	{"fsck error", "the repository has objects that git rejects"},
	// The kernel killed index-pack at the size limit for files. Git notices when it reads from or writes to index-pack.
	{"invalid index-pack output", tooLarge},
	{"signal: broken pipe", tooLarge},
	{"exit status 141", tooLarge}, // the same signal, of a child of the sandbox's first process
	{"File name too long", "the repository has file names that are too long"},
	{"repository '", "the repository does not exist or needs a credential"},
	{"does not appear to be a git repository", "the repository does not exist or needs a credential"},
	{"Failed to connect", "the source host does not accept connections"},
	{"Connection refused", "the source host does not accept connections"},
	{"timed out", "the source host does not answer"},
	{"Couldn't connect", "the source host does not accept connections"},
	{"No route to host", "the source host does not accept connections"},
	// Git's last line after any failure of ssh. Without another message, the repository does not exist.
	{"Could not read from remote repository", "the repository does not exist or needs a credential"},
}

// explain converts an error of a command to an error with a message for callers. The message of git contains text of
// the host, so explain returns only known messages, or the first fatal line without secrets.
func (w *workspace) explain(err error) error {
	var failed *sandbox.Error
	if !errors.As(err, &failed) {
		return err
	}
	if len(w.secret) > 0 && strings.Contains(failed.Stderr, "could not read ") {
		return assay.Errorf(assay.CodeUnprocessable, "the source host rejected the credential")
	}
	for _, t := range troubles {
		if strings.Contains(failed.Stderr, t.part) || strings.Contains(failed.Error(), t.part) {
			return &assay.Error{Code: assay.CodeUnprocessable, Message: t.message}
		}
	}
	line := "git failed: " + failed.Error() // its exit status or signal
	for text := range strings.Lines(failed.Stderr) {
		if fatal, ok := strings.CutPrefix(text, "fatal: "); ok {
			line = "git failed: " + strings.TrimSpace(fatal)
			break
		}
	}
	for _, s := range w.secret {
		line = strings.ReplaceAll(line, s, "***")
	}
	line = strings.ReplaceAll(line, w.dir, "")
	return &assay.Error{Code: assay.CodeUnprocessable, Message: safetext.Cut(safetext.Printable(line, ""), maxTrouble)}
}

// configFile is a configuration file of git.
type configFile struct{ text strings.Builder }

// add adds a section with pairs of names and values.
func (f *configFile) add(section string, pairs ...string) {
	fmt.Fprintf(&f.text, "[%s]\n", section)
	for i := 0; i < len(pairs); i += 2 {
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(pairs[i+1])
		fmt.Fprintf(&f.text, "\t%s = \"%s\"\n", pairs[i], value)
	}
}
