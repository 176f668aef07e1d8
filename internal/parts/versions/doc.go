// Package versions notices when the API server's version changes.
package versions
