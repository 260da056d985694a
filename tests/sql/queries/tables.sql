-- tables alone: filters, groups, orders
SELECT * FROM items;
SELECT name, price FROM items WHERE price > 2 ORDER BY price DESC;
SELECT kind, COUNT(*), COUNT(price), SUM(price), AVG(price), MIN(name), MAX(name) FROM items GROUP BY kind;
SELECT kind, COUNT(*) AS n FROM items GROUP BY kind HAVING COUNT(*) > 1 ORDER BY n DESC, kind;
SELECT name, price * 1.2 AS gross, stock // 2, stock % 3, -stock, stock / 4 FROM items;
SELECT name FROM items WHERE kind IS NULL OR stock IS NULL;
SELECT name FROM items WHERE NOT (kind = 'office');
SELECT name FROM items WHERE kind <> 'office' AND price IS NOT NULL;
SELECT name, COALESCE(kind, 'unknown') AS k, COALESCE(stock, 0), IFNULL(price, -1) FROM items;
SELECT name, CASE WHEN price > 50 THEN 'dear' WHEN price > 2 THEN 'fair' ELSE 'cheap' END AS how FROM items;
SELECT CASE kind WHEN 'office' THEN 1 WHEN 'room' THEN 2 END AS c, COUNT(*) FROM items GROUP BY c;
SELECT name FROM items WHERE name LIKE 'p%' OR name LIKE '_nk';
SELECT name FROM items WHERE name NOT LIKE '%e%' AND name ILIKE '%D%';
SELECT name FROM items WHERE name IN ('pen', 'ink', 'nothing') AND id NOT IN (0, 77);
SELECT name FROM items WHERE price BETWEEN 1 AND 3 AND name BETWEEN 'i' AND 'q';
SELECT UPPER(name), LOWER(name), LENGTH(name), REVERSE(name), name || '!' AS x, SUBSTRING(name, 2, 3), LEFT(name, 2), RIGHT(name, 2) FROM items;
SELECT name || '-' || kind, CONCAT(name, '-', kind), REPLACE(name, 'e', 'EE'), STRPOS(name, 'e'), TRIM('  x '), LPAD(name, 4, '*') FROM items;
SELECT DISTINCT kind FROM items ORDER BY kind;
SELECT DISTINCT kind, stock IS NULL AS gone FROM items;
SELECT kind, name FROM items ORDER BY kind NULLS FIRST, name DESC LIMIT 4 OFFSET 2;
SELECT id FROM sales ORDER BY amount DESC NULLS LAST, id LIMIT 7;
SELECT id FROM sales ORDER BY note, amount, id;
SELECT COUNT(DISTINCT item), COUNT(DISTINCT note), SUM(DISTINCT qty), COUNT(*) FROM sales;
SELECT note, COUNT(DISTINCT item) AS n, MEDIAN(amount), QUANTILE_CONT(amount, 0.25), STDDEV(amount), VAR_POP(qty) FROM sales GROUP BY note;
SELECT paid, note, SUM(qty), AVG(amount) FROM sales GROUP BY paid, note ORDER BY paid, note NULLS FIRST;
SELECT BOOL_AND(paid), BOOL_OR(paid), COUNT_IF(paid), COUNT(*) FILTER (WHERE amount > 10) FROM sales;
SELECT item, ARG_MAX(id, qty * 1000 + id), FIRST(note ORDER BY id), STRING_AGG(note, '+' ORDER BY id) FROM sales GROUP BY item;
SELECT SUM(amount) FROM sales WHERE amount > 1000;
SELECT item FROM sales WHERE amount > 1000 GROUP BY item;
SELECT MIN(day), MAX(day), MIN(sold), MAX(paid) FROM sales;
-- dates and times
SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*), SUM(qty) FROM sales GROUP BY y, m ORDER BY y, m;
SELECT id FROM sales WHERE day >= DATE '2024-03-01' AND day < DATE '2024-03-01' + INTERVAL 1 MONTH;
SELECT id, EXTRACT(DOW FROM day), DAYOFYEAR(day), WEEK(day), QUARTER(day), LAST_DAY(day) FROM sales;
SELECT DATE_TRUNC('month', day) AS month, COUNT(*) FROM sales GROUP BY month ORDER BY month;
SELECT id, HOUR(sold), MINUTE(sold), SECOND(sold), CAST(sold AS DATE) FROM sales WHERE id < 20;
SELECT name, added, added + 3, added - INTERVAL 1 YEAR, DATE_DIFF('month', added, DATE '2025-01-15'), DATE '2024-12-31' - added FROM items;
SELECT STRFTIME(day, '%Y/%m') AS ym, COUNT(*) FROM sales GROUP BY ym;
SELECT DAYNAME(day) AS d, COUNT(*) FROM sales GROUP BY d ORDER BY 2 DESC, 1;
SELECT day FROM sales WHERE day = '2024-02-29' OR MONTH(day) = 2 AND DAY(day) > 27;
-- casts
SELECT CAST(price AS INTEGER), CAST(stock AS DOUBLE), CAST(stock AS VARCHAR), CAST(id AS VARCHAR) || 'x', TRY_CAST(name AS INTEGER), CAST('17' AS INTEGER) + id FROM items;
SELECT ROUND(price), ROUND(price, 1), FLOOR(price), CEIL(price), ABS(stock), SIGN(stock), SQRT(price), price ** 2, LN(price + 1), GREATEST(stock, 3), LEAST(price, 2.0) FROM items;
-- three-valued logic
SELECT id, stock > 3 AND price > 1, stock > 3 OR price > 1, NOT (stock > 3), stock = 5 IS NULL, stock IS DISTINCT FROM 5, NULLIF(stock, 5) FROM items;
SELECT id FROM items WHERE (stock > 3) IS NOT TRUE;
SELECT 1 AS one, NULL AS nothing, 'x' AS text, 2 > 1 AS yes, 1.5 AS real;
SELECT * FROM (VALUES (1, 'a', NULL), (2, NULL, 3.5)) t(x, y, z) WHERE x < 3 ORDER BY x DESC;
