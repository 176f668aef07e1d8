package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Screen prints progress. On a terminal, headings are bold.
type Screen struct {
	out  io.Writer
	rich bool
}

// New returns a screen for a file. Without a terminal, it uses no formatting.
func New(file *os.File) *Screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Screen{out: file, rich: terminal && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""}
}

// Plain returns a screen without formatting.
func Plain(out io.Writer) *Screen { return &Screen{out: out} }

func (s *Screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// Say prints a text and a line break.
func (s *Screen) Say(text string) { s.printf("%s\n", text) }

// Bold prints a line, in bold on a terminal.
func (s *Screen) Bold(text string) {
	if s.rich {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.Say(text)
}

// Heading prints a heading between two empty lines.
func (s *Screen) Heading(text string) {
	s.Say("")
	s.Bold(fmt.Sprintf("=== %s %s", text, strings.Repeat("=", max(0, 90-len(text)))))
	s.Say("")
}

// Part prints lines below a title. If there are no lines, it prints a remark.
func (s *Screen) Part(title string, lines []string, none string) {
	s.Say("")
	s.Bold(title)
	if len(lines) == 0 {
		lines = []string{none}
	}
	s.Indent(lines)
}

// Indent prints indented lines.
func (s *Screen) Indent(lines []string) {
	for _, line := range lines {
		s.Say("  " + line)
	}
}

// During runs a function with a time limit. It prints a description, the elapsed time every 5 seconds, and the total duration.
func (s *Screen) During(ctx context.Context, limit time.Duration, what, hint string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.printf("%s (%s) ...", what, hint)
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	sign := time.NewTicker(5 * time.Second)
	defer sign.Stop()
	for {
		select {
		case <-sign.C:
			s.printf(" %ds ...", int(time.Since(began).Seconds()))
		case err := <-done:
			took := time.Since(began).Round(100 * time.Millisecond)
			if err != nil {
				s.printf(" failed after %s\n", took)
				return fmt.Errorf("%s: %w", strings.ToLower(what[:1])+what[1:], err)
			}
			s.printf(" done in %s\n", took)
			return nil
		}
	}
}
