package execution

import "strings"

// ours begins the names of functions of this library.
const modulePath = "github.com/kopf-runtime/kopf-runtime/"

// trimmed is the part of a stack that tells where a handler has panicked: from the panic down to
// where the library has called the handler.
func trimStack(stack []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stack)), "\n")
	first := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			first = i + 2 // below it stands its file
		}
	}
	last := first
	for last < len(lines) && !isLibraryFrame(lines[last]) {
		last++
	}
	if last == first {
		return string(stack) // of another form than expected: rather too much than nothing
	}
	return strings.Join(lines[first:last], "\n")
}

func isLibraryFrame(line string) bool {
	return strings.HasPrefix(line, modulePath+"pkg/") || strings.HasPrefix(line, modulePath+"internal/")
}
