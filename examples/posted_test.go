package examples

import (
	"strings"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func recordedEvents(e *example) {
	e.start()
	archive := e.sample("archive")
	e.run("kubectl apply -f config/samples")
	want := []string{"Provisioned: created a database of 10 GiB"}
	e.Eventually(archive.events).Should(ConsistOf(want))

	e.run(`kubectl patch database archive --type=merge -p '{"spec":{"sizeGiB":20}}'`)
	want = append(want, "HandlerRecovered: grow/spec.sizeGiB has succeeded; failed attempts before that: 3")
	e.Eventually(archive.events).Should(ConsistOf(want))
	described := e.run("kubectl describe database archive")
	for _, event := range want {
		_, note, _ := strings.Cut(event, ": ")
		e.Expect(described).To(ContainSubstring(note))
	}

	e.run(`kubectl patch database archive --type=merge -p '{"spec":{"sizeGiB":5000}}'`)
	e.Eventually(archive.events).Should(ContainElement(And(
		HavePrefix("HandlerFailed: grow/spec.sizeGiB: 5000 GiB are too many and more"), HaveSuffix(": 1000 at most"),
		ContainSubstring("..."), HaveLen(len("HandlerFailed: ")+1024))))
	e.Expect(archive.events()).To(HaveLen(3))

	e.run("kubectl label database archive watched=")
	e.Eventually(e.countLog("Looking")).Should(BeNumerically(">", 5))
	e.run("kubectl label database archive watched-")
	e.run("kubectl get events.events.k8s.io -o custom-columns=REASON:.reason,NOTE:.note,COUNT:.series.count")
	e.Eventually(func() ([]eventsv1.Event, error) {
		var list eventsv1.EventList
		err := e.client.List(e.t.Context(), &list, client.InNamespace("default"))
		return list.Items, err
	}).Should(ContainElement(And(
		HaveField("Reason", "Looked"), HaveField("Regarding.Name", "archive"), HaveField("Series.Count", BeNumerically(">", 1)))))
	events, err := archive.events()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(len(events)).To(BeNumerically("<", 3+e.countLog("Looking")()), "the recorder must combine several calls into one Event")

	e.stop()
	e.start("-events=steps")
	archive.patch(`{"spec":{"sizeGiB":30}}`)
	e.Eventually(archive.events).Should(ContainElement("HandlerRetries: grow/spec.sizeGiB: the disks are busy"))
	e.Eventually(e.countLog(`Handler succeeded`, `"handler": "grow/spec.sizeGiB"`)).Should(Equal(2))
	e.stop()
	e.start("-events=off")
	events, err = archive.events()
	e.Expect(err).NotTo(HaveOccurred())
	archive.patch(`{"spec":{"sizeGiB":6000}}`)
	e.Eventually(e.countLog(`Handler failed permanently`)).Should(Equal(2))
	archive.delete()
	e.Expect(archive.events()).To(ConsistOf(events))
	e.expectNoLog("forbidden")
	e.checkEventsInReadme(events)
}

// checkEventsInReadme checks that the README shows the reason of each Event, and the note unless it is long.
func (e *example) checkEventsInReadme(events []string) {
	e.t.Helper()
	text := read(e.t, e.name, "README.md")
	for _, event := range events {
		reason, note, _ := strings.Cut(event, ": ")
		if !strings.Contains(text, reason) || len(note) < 100 && !strings.Contains(text, note) {
			e.t.Errorf("the README does not show %q", event)
		}
	}
}
