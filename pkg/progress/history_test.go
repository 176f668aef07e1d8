package progress_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// archivingStore is a store with an archive of its own.
type archivingStore struct {
	embeddedStore
	archived map[string]progress.Record
}

func (s archivingStore) Archive(_ client.Object, id string, record progress.Record) error {
	s.archived[id] = record
	return nil
}

func TestWithHistory_CallsArchiverOfWrappedStore(t *testing.T) {
	wrapped := archivingStore{progress.Smart(), map[string]progress.Record{}}
	record := progress.Record{Purpose: "create", Failure: true, Message: strings.Repeat("x", 300), Subrefs: []string{"a/b"}}
	obj := configMap()
	if err := progress.WithHistory(wrapped, 2).(progress.Archiver).Archive(obj, "a", record); err != nil {
		t.Fatal(err)
	}
	equal(t, "archived records", wrapped.archived, map[string]progress.Record{"a": record})
	if entries, err := progress.History(obj); err != nil || len(entries) != 1 {
		t.Errorf("history = %v and error = %v, want one entry", entries, err)
	}
}

// History fails with the error, and stores treat the record as absent: the text fits both.
func TestUnreadableError_Text(t *testing.T) {
	_, err := progress.History(configMap(progress.HistoryAnnotation, "[null]"))
	equal(t, "error of History", err.Error(), "unreadable record in annotation kopf-runtime.dev/history: an entry is not a record")
	_, err = store.Fetch(configMap(kopfPrefix+"/a", "[]"), "a")
	equal(t, "error of Fetch", strings.HasPrefix(err.Error(), "unreadable record in annotation "+kopfPrefix+"/a: "), true)
}
