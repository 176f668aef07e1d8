package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// tool returns a script in place of govulncheck that exits with a code.
func tool(t *testing.T, code, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho GO-2026-0001 in $4, by $2\n"+more+"\nexit "+code+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestVulnerabilities(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/index/db.json" {
			http.NotFound(w, req)
		}
	}))
	t.Setenv("GOVULNDB", server.URL)
	g.Expect(run(tool(t, "0", ""), []string{"."})).To(Succeed())
	g.Expect(run(tool(t, "3", ""), []string{"here", "there"})).To(MatchError(And(
		ContainSubstring("here: the code calls vulnerable functions"), ContainSubstring("GO-2026-0001 in there, by "+server.URL))))
	g.Expect(run(tool(t, "1", ""), []string{"."})).To(MatchError(ContainSubstring("govulncheck failed")))

	skipped := filepath.Join(t.TempDir(), "skipped")
	t.Setenv("SKIPPED_CHECKS", skipped)
	unreachable := tool(t, "1", "echo govulncheck: fetching vulnerabilities: no such host")
	g.Expect(run(unreachable, []string{"here", "there"})).To(Succeed(), "the database is unreachable during the scan")
	server.Close()
	g.Expect(run(tool(t, "3", ""), []string{"."})).To(Succeed(), "the database is unreachable before the scan")
	text, err := os.ReadFile(skipped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Split(strings.TrimSpace(string(text)), "\n")).To(HaveExactElements(HavePrefix("known vulnerabilities in here: "),
		HavePrefix("known vulnerabilities in there: "), HavePrefix("known vulnerabilities: the database is unreachable")))
}

// The CI requires the check, so that a skipped check does not count as a passed one.
func TestVulnerabilities_Required(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("REQUIRE_VULNERABILITIES", "1")
	t.Setenv("GOVULNDB", t.TempDir()) // not a URL, so the command does not ask for it
	g.Expect(run(tool(t, "0", ""), []string{"."})).To(Succeed())
	g.Expect(run(tool(t, "1", "echo govulncheck: fetching vulnerabilities: no such host"), []string{"here"})).To(MatchError(ContainSubstring("cannot check known vulnerabilities in here")))
	t.Setenv("GOVULNDB", "http://127.0.0.1:1")
	g.Expect(run(tool(t, "0", ""), []string{"."})).To(MatchError(ContainSubstring("cannot check known vulnerabilities: the database is unreachable")))
	for _, workflow := range []string{"ci", "nightly", "release"} {
		text, err := os.ReadFile("../../.github/workflows/" + workflow + ".yml")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(text)).To(ContainSubstring(`REQUIRE_VULNERABILITIES: "1"`), workflow)
	}
}
