package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

	g.Expect(run(tool(t, "1", "echo govulncheck: fetching vulnerabilities: no such host"), []string{"."})).To(Succeed(), "the database is unreachable during the scan")

	server.Close()
	g.Expect(run(tool(t, "3", ""), []string{"."})).To(Succeed(), "the database is unreachable before the scan")
}
