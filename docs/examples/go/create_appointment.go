// Gets an access token, reads the sandbox and creates an appointment.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

var client = &http.Client{Timeout: 30 * time.Second}

// call sends a request and decodes the response into result. After 429 and 503, it waits and repeats the request.
// This is safe: see "Idempotency" in the guide.
func call(method, path string, headers map[string]string, body, result any) {
	var content []byte
	if body != nil {
		content, _ = json.Marshal(body)
	}
	for attempt := 1; ; attempt++ {
		request, err := http.NewRequest(method, os.Getenv("API")+path, bytes.NewReader(content))
		if err != nil {
			log.Fatal(err)
		}
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		response, err := client.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode < 300 {
			if err := json.Unmarshal(text, result); err != nil {
				log.Fatal(err)
			}
			return
		}
		canRetry := response.StatusCode == 429 || response.StatusCode == 503
		if !canRetry || attempt == 5 {
			log.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			seconds = 1
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func main() {
	var token struct {
		AccessToken string `json:"access_token"`
	}
	call("POST", "/oauth/token", nil, map[string]string{
		"client_id":     os.Getenv("CLIENT_ID"),
		"client_secret": os.Getenv("CLIENT_SECRET"),
		"grant_type":    "client_credentials",
		"environment":   "sandbox",
	}, &token)

	type record struct{ ID, Status string }
	var state struct {
		Sandbox struct {
			ClinicID          string
			Branches, Animals []record
		}
	}
	headers := map[string]string{"Authorization": "Bearer " + token.AccessToken}
	call("GET", "/sandbox", headers, nil, &state)

	key := make([]byte, 16)
	rand.Read(key)
	headers["X-SERVICE-Clinic-ID"] = state.Sandbox.ClinicID
	// Store the key with your booking, so that a retry after a crash uses the same key.
	headers["Idempotency-Key"] = fmt.Sprintf("%x", key)
	var created struct{ Appointment record }
	call("POST", "/appointments", headers, map[string]string{
		"branchId":    state.Sandbox.Branches[0].ID,
		"animalId":    state.Sandbox.Animals[0].ID,
		"scheduledAt": time.Now().UTC().AddDate(0, 0, 1).Format(time.RFC3339),
		"notes":       "Vaccination",
	}, &created)
	fmt.Println(created.Appointment.ID, created.Appointment.Status)
}
